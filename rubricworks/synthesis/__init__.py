"""Rubric synthesis: what a committee of captioners agrees on becomes weighted, binary criteria."""

from rubricworks.synthesis.prompts import CAPTION_PROMPT, CAPTION_PROMPT_VERSION, WRITER_PROMPT_VERSION, Coverage
from rubricworks.synthesis.writer import Candidate, RubricResult, RubricWriter

__all__ = [
    "CAPTION_PROMPT",
    "CAPTION_PROMPT_VERSION",
    "WRITER_PROMPT_VERSION",
    "Candidate",
    "Coverage",
    "RubricResult",
    "RubricWriter",
]
