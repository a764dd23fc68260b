"""BalCapRL's own steps."""
