"""Algorithms of a policy training, one file per type."""
