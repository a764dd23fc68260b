"""Rubric sets: browsing, versions that a second person reviews, comparison."""
