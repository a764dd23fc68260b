"""Grading of a caption against its reference, assertion by assertion (BalCapRL)."""
