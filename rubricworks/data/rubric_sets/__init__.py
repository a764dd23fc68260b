"""Rubric sets: the rubrics of many samples, as this project and others write them."""

from rubricworks.data.rubric_sets.entries import RubricEntry
from rubricworks.data.rubric_sets.files import FORMATS, read_rubric_set, write_rubric_set

__all__ = ["FORMATS", "RubricEntry", "read_rubric_set", "write_rubric_set"]
