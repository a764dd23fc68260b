"""Rules of thumb for the tokens of a call, by which a run is estimated before it starts.

They fit a 1024-pixel image, a detailed caption, and rubrics, checklists and assertions of the papers' kinds.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from rubricworks.llm.endpoint import Endpoint

CAPTION_TOKENS = 300
IMAGE_TOKENS = 1_000
TOKENS_PER_CRITERION = 60
CRITERIA_PER_RUBRIC = 8
GRADING_IN = 500 + CAPTION_TOKENS + CRITERIA_PER_RUBRIC * TOKENS_PER_CRITERION
GRADING_OUT = CRITERIA_PER_RUBRIC * TOKENS_PER_CRITERION
"""Tokens of one call that grades a caption by all criteria of its rubric."""
CRITERION_IN = GRADING_IN - (CRITERIA_PER_RUBRIC - 1) * TOKENS_PER_CRITERION
"""Tokens of one call that grades a caption by one criterion."""
READING_IN = 600 + CRITERIA_PER_RUBRIC * TOKENS_PER_CRITERION // 2
READING_OUT = CRITERIA_PER_RUBRIC * TOKENS_PER_CRITERION // 2
"""Tokens of one call that reads what the criteria of a rubric ask for."""
GUIDE_TOKENS = 900
"""Tokens of long instructions: principles, fields and examples."""
COMPARISON_IN = IMAGE_TOKENS + 500 + 2 * CAPTION_TOKENS
COMPARISON_OUT = 150
"""Tokens of one pairwise comparison of captions."""
ASSERTION_TOKENS = 40
"""Tokens of one assertion as JSON, with its reason."""
ASSERTIONS_PER_CAPTION = 25
QUESTIONS_PER_EXAM = 5
EXAM_TOKENS = 600


@dataclass(frozen=True)
class PlannedCalls:
    """Calls of one kind that a run will make."""

    purpose: str
    endpoint: Endpoint
    count: int
    tokens_in: int
    """Tokens per call, as `tokens_out`."""
    tokens_out: int


class GradingCalls(NamedTuple):
    """Calls of a judge, with the tokens of each."""

    calls: int
    tokens_in: int
    tokens_out: int


def grading_calls(responses: int, call_per: Literal["response", "criterion"]) -> GradingCalls:
    """Calls that grade responses by their rubrics, one per response or one per criterion."""
    if call_per == "response":
        return GradingCalls(responses, GRADING_IN, GRADING_OUT)
    return GradingCalls(responses * CRITERIA_PER_RUBRIC, CRITERION_IN, TOKENS_PER_CRITERION)
