"""Requests of the grading benchmark, of the size that a judge gets, each one new."""

import io
import json
import random
from typing import Any

from PIL import Image
from pydantic import BaseModel

SYSTEM = (
    "You check image captions against a list of criteria and report, for each one, whether the caption meets it. "
    "Meaning counts, wording does not; a needed fact that is missing, vague or contradicted scores 0. "
) * 8
CRITERION = (
    '<criteria>\n[{"id": 1, "criterion": "Names the object at the top left", "description": "Whether the object that '
    'most candidates place at the top left is found and named with its colour.", "evaluation_rule": "Passes if the '
    'caption names a red circle at the top left. Fails if it names none there."}]\n</criteria>\n\n'
)
CAPTION = "at top-left a big red circle . at center a small blue square . at bottom-right a green triangle . " * 4
_REASON = (
    "The caption says: at top-left a big red circle. That names the object of the rule, its place and its colour, so "
    "the rule is met in full, and nothing else in the caption contradicts it."
)
ANSWER = json.dumps({"verdicts": [{"id": 1, "reasoning": _REASON, "score": 1}]})
"""250 bytes, as what they are asked with is 2.5 kB."""


class Score(BaseModel):
    id: int
    reasoning: str
    score: int


class Judgment(BaseModel):
    """Schema that validates `ANSWER`."""

    verdicts: tuple[Score, ...]


def text_messages(number: int) -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": f"{CRITERION}<caption>\n{CAPTION}{number}\n</caption>"},
    ]


def image_messages(image_part: dict[str, Any], number: int) -> list[dict[str, Any]]:
    system, user = text_messages(number)
    return [system, {"role": "user", "content": [image_part, {"type": "text", "text": user["content"]}]}]


def noise_images(kilobytes: int, images: int = 10) -> list[bytes]:
    """PNG files of that size: noise, which no compression makes smaller."""
    side = round((1000 * kilobytes / 3) ** 0.5)
    files = []
    for seed in range(images):
        file = io.BytesIO()
        Image.frombytes("RGB", (side, side), random.Random(seed).randbytes(3 * side * side)).save(file, "PNG")
        files.append(file.getvalue())
    return files
