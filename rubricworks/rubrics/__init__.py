"""Values of grading: criteria, rubrics, responses, verdicts, scorecards, and assertions about a caption."""

from rubricworks.rubrics.assertions import (
    CaptionAssertions,
    CaptionFeatures,
    CoveredAssertion,
    ReferenceFeatures,
    VerifiedAssertion,
)
from rubricworks.rubrics.checklist import Checklist, ChecklistItem
from rubricworks.rubrics.response import MediaType, Response
from rubricworks.rubrics.rubric import Criterion, Rubric
from rubricworks.rubrics.scorecard import ErrorClass, Scorecard, Verdict

__all__ = [
    "CaptionAssertions",
    "CaptionFeatures",
    "Checklist",
    "ChecklistItem",
    "CoveredAssertion",
    "Criterion",
    "ErrorClass",
    "MediaType",
    "ReferenceFeatures",
    "Response",
    "Rubric",
    "Scorecard",
    "Verdict",
    "VerifiedAssertion",
]
