"""The report of a BalCapRL run."""
