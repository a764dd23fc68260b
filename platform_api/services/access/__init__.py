"""Callers: tokens, rights and the log of their changes."""
