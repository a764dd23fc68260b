"""One kind of request that a run will make, and the rules of thumb by which its tokens are estimated."""

from dataclasses import dataclass

from rubricworks.llm import Endpoint

TOKENS_PER_CRITERION = 60
CRITERIA_PER_RUBRIC = 8
CAPTION_TOKENS = 300
IMAGE_TOKENS = 1_000
"""Rules of thumb for an estimate: a 1024-pixel image, a detailed caption, a rubric of the paper's kind."""
GRADING_IN = 500 + CAPTION_TOKENS + CRITERIA_PER_RUBRIC * TOKENS_PER_CRITERION
GRADING_OUT = CRITERIA_PER_RUBRIC * TOKENS_PER_CRITERION
"""A caption graded by all criteria of its rubric in one call."""


@dataclass(frozen=True)
class Calls:
    """Requests of one kind to one model."""

    stage: str
    purpose: str
    endpoint: Endpoint
    count: int
    tokens_in: int
    """Per call."""
    tokens_out: int

    @property
    def dollars(self) -> float:
        return self.endpoint.cost(self.count * self.tokens_in, self.count * self.tokens_out)
