"""The report of an RLR³ run."""
