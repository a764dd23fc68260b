"""Students small enough for two CPU cores, built from a config and trained for real."""
