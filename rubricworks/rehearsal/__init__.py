"""Dress rehearsal: a recipe as it stands, end to end, on miniatures of its models and a few rows of its data."""
