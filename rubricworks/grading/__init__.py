"""Grading: a rubric on a response becomes a scorecard."""

from rubricworks.grading.assertion_grader import AssertionGrader, GradedCaption
from rubricworks.grading.assertion_prompts import ASSERTION_PROMPT_VERSION, Pointability
from rubricworks.grading.execution import execute, verdicts_of
from rubricworks.grading.grader import CallPer, FailedCall, Grader
from rubricworks.grading.requests import (
    AnyRequest,
    Exposure,
    ExtractorItem,
    ImageShown,
    JudgeItem,
    ScoringRequest,
    TargetItem,
    TargetsShown,
    Unverified,
    exposed_request,
    scoring_request,
)
from rubricworks.grading.scoring_answers import ScoredItem, Scoring, check_scoring
from rubricworks.grading.scoring_prompts import SCORING_PROMPT_VERSION, scoring_messages, scoring_text
from rubricworks.grading.votes import Combine, combine_credits

__all__ = [
    "ASSERTION_PROMPT_VERSION",
    "SCORING_PROMPT_VERSION",
    "AnyRequest",
    "AssertionGrader",
    "CallPer",
    "Combine",
    "Exposure",
    "ExtractorItem",
    "FailedCall",
    "GradedCaption",
    "Grader",
    "ImageShown",
    "JudgeItem",
    "Pointability",
    "ScoredItem",
    "Scoring",
    "ScoringRequest",
    "TargetItem",
    "TargetsShown",
    "Unverified",
    "check_scoring",
    "combine_credits",
    "execute",
    "exposed_request",
    "scoring_messages",
    "scoring_request",
    "scoring_text",
    "verdicts_of",
]
