"""Submitted runs: their policy, and where they run."""
