"""Report of an RLR³ run."""
