"""Worked answers to visual questions: one sentence per relevant object, and the answer in a box at the end.

    at top-left a big red circle . at center a small red star . \\boxed{ 2 }

`read_response` parses any text: the objects that it describes, and its last box.
"""

import re
from typing import NamedTuple

from rubricworks.world.scene.captions import SceneLike, describe
from rubricworks.world.scene.parsing import Mention, mentions
from rubricworks.world.scene.questions import LETTERS, Query, answer_query, subjects_of
from rubricworks.world.scene.scene import CELLS

_BOXED = re.compile(r"\\boxed\s*\{([^{}]*)\}")


class ResponseParts(NamedTuple):
    """A parsed response."""

    objects: tuple[Mention, ...]
    words: tuple[str, ...]
    boxed: str | None
    """The trimmed content of the last box; None without one."""


def write_response(query: Query, view: SceneLike, *, options: tuple[str, ...] = (), boxed: str | None = None) -> str:
    """The worked answer that follows from the view.

    Args:
        options: the options of a multiple-choice question; the box then holds the letter.
        boxed: content of the box, instead of the answer that follows from the view.
    """
    objects = sorted(subjects_of(query, view), key=lambda item: CELLS.index(item.cell))
    steps = [f"at {item.cell} a {describe(item)} ." for item in objects]
    if query.task == "word" and view.word:
        steps.append(f"the word {view.word} .")
    answer = answer_query(query, view) if boxed is None else boxed
    if options and answer in options:
        answer = LETTERS[options.index(answer)]
    return " ".join([*steps, f"\\boxed{{ {answer if answer is not None else 'none'} }}"])


def read_response(text: str) -> ResponseParts:
    """Parse any text; broken or missing parts are left out."""
    boxes = _BOXED.findall(text)
    stated = mentions(_BOXED.sub(" . ", text))
    return ResponseParts(stated.objects, stated.words, boxes[-1].strip() if boxes else None)
