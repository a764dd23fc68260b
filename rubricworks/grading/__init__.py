"""Grading: a rubric on a response becomes a scorecard."""

from rubricworks.grading.grader import CallPer, Exposure, FailedCall, Grader
from rubricworks.grading.votes import Combine, combine_credits

__all__ = ["CallPer", "Combine", "Exposure", "FailedCall", "Grader", "combine_credits"]
