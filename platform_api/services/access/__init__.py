"""Callers: their tokens and rights, and the log of what they changed."""
