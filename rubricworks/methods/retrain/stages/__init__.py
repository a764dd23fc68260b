"""Stages of a retraining."""
