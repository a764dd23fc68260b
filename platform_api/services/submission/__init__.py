"""Submitted runs: policy and placement."""
