"""Synthesis stages: captions of a committee and of the student, and the rubrics written from them."""
