"""Evaluation: models respond to the held-out samples, and scorers measure the responses."""
