"""Grading: a response and its rubric give a scorecard."""

from rubricworks.grading.assertions.grader import AssertionGrader, GradedCaption
from rubricworks.grading.assertions.prompts import ASSERTION_PROMPT_VERSION, Pointability
from rubricworks.grading.cascade import Cascade, check_gives_logprobs, require_logprobs
from rubricworks.grading.execution import execute, verdicts_of
from rubricworks.grading.grader import CallPer, FailedCall, Grader, Subject
from rubricworks.grading.requests import (
    AnyRequest,
    Exposure,
    ExtractorItem,
    JudgeItem,
    RequestWithImage,
    RequestWithoutVerifiers,
    RequestWithTargets,
    ScoringRequest,
    TargetItem,
    request_with_exposure,
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
    "Cascade",
    "Combine",
    "Exposure",
    "ExtractorItem",
    "FailedCall",
    "GradedCaption",
    "Grader",
    "RequestWithImage",
    "JudgeItem",
    "Pointability",
    "ScoredItem",
    "Scoring",
    "ScoringRequest",
    "Subject",
    "TargetItem",
    "RequestWithTargets",
    "RequestWithoutVerifiers",
    "check_scoring",
    "combine_credits",
    "execute",
    "request_with_exposure",
    "require_logprobs",
    "check_gives_logprobs",
    "scoring_messages",
    "scoring_request",
    "scoring_text",
    "verdicts_of",
]
