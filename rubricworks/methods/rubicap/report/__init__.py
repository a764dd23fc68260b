"""The report of a RubiCap run."""
