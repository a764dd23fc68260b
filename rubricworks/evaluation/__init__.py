"""Evaluation: scorers that measure responses, the scoreboard of an evaluation, and audits of judges."""

from rubricworks.evaluation.scorers.scorer import Score

__all__ = ["Score"]
