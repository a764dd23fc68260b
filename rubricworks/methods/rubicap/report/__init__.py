"""Report of a RubiCap run."""
