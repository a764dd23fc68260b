"""Stages of RubricRL."""
