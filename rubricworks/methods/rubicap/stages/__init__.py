"""RubiCap's own steps."""
