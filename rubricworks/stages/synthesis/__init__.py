"""Captions of a committee and of the student, and the rubrics that are written from them."""
