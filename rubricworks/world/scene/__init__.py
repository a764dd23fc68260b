"""Scenes as values: drawn, described, read back, asked about, and exported with their truth."""
