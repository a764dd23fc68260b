"""The values that grading exchanges: criteria, rubrics, verdicts, scorecards. Imports nothing above itself."""

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
