"""The values that grading exchanges: criteria, rubrics, verdicts, scorecards. Imports nothing above itself."""

from rubricworks.rubrics.rubric import Criterion, Rubric
from rubricworks.rubrics.scorecard import ErrorClass, Scorecard, Verdict

__all__ = ["Criterion", "ErrorClass", "Rubric", "Scorecard", "Verdict"]
