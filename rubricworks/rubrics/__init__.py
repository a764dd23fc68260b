"""Values of grading: criteria, rubrics, verdicts, scorecards, and the judge's assertions about a caption."""

from rubricworks.rubrics.assertions import (
    CaptionAssertions,
    CaptionFeatures,
    CoveredAssertion,
    ReferenceFeatures,
    VerifiedAssertion,
)
from rubricworks.rubrics.checklist import Checklist, ChecklistItem
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
    "ReferenceFeatures",
    "Rubric",
    "Scorecard",
    "Verdict",
    "VerifiedAssertion",
]
