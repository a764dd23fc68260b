"""Grading: a rubric on a response becomes a scorecard."""

from rubricworks.grading.grader import CallPer, Exposure, Grader

__all__ = ["CallPer", "Exposure", "Grader"]
