"""Stages of an evaluation by itself."""
