"""Worked answers to visual questions: what was looked at, sentence by sentence, and the answer in a box at the end.

    at top-left a big red circle . at center a small red star . \\boxed{ 2 }

`read_response` takes any text apart again: the objects it describes, and its last box.
"""

import re
from typing import NamedTuple

from rubricworks.world.scene.captions import Seen, describe
from rubricworks.world.scene.parsing import Mention, mentions
from rubricworks.world.scene.questions import LETTERS, Query, answer_query, subjects_of
from rubricworks.world.scene.scene import CELLS

_BOXED = re.compile(r"\\boxed\s*\{([^{}]*)\}")


class ResponseParts(NamedTuple):
    """What a response says."""

    objects: tuple[Mention, ...]
    words: tuple[str, ...]
    boxed: str | None
    """The content of its last box, trimmed; None without one."""


def write_response(query: Query, seen: Seen, *, options: tuple[str, ...] = (), boxed: str | None = None) -> str:
    """How somebody answers who sees this.

    Args:
        options: of a multiple-choice question: the box holds the letter.
        boxed: what the box holds instead of what follows from what is seen.
    """
    objects = sorted(subjects_of(query, seen), key=lambda item: CELLS.index(item.cell))
    steps = [f"at {item.cell} a {describe(item)} ." for item in objects]
    if query.task == "word" and seen.word:
        steps.append(f"the word {seen.word} .")
    answer = answer_query(query, seen) if boxed is None else boxed
    if options and answer in options:
        answer = LETTERS[options.index(answer)]
    return " ".join([*steps, f"\\boxed{{ {answer if answer is not None else 'none'} }}"])


def read_response(text: str) -> ResponseParts:
    """The parts of any text; broken or missing parts are simply not there."""
    boxes = _BOXED.findall(text)
    said = mentions(_BOXED.sub(" . ", text))
    return ResponseParts(said.objects, said.words, boxes[-1].strip() if boxes else None)
