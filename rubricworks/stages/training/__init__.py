"""Supervised warm-up, and what every policy training has around its trainer."""
