"""Report of a BalCapRL run."""
