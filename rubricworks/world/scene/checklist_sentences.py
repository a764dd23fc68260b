"""The criteria of this world's checklists as sentences, which rubric writers write and scorers read back.

    The final answer gives the number of red objects.      (the answer: essential)
    The response describes the object at top-left.         (a step: additional)

Neither gives its reference away. The patterns match any sentence of these forms, so that a criterion which another
model has copied still reads the same.
"""

import re

from rubricworks.world.scene.questions import Query
from rubricworks.world.scene.scene import CELLS, Cell

_ANSWER = re.compile(r"the final answer gives the (?P<what>[^.]+)\.?")
_CELL = "|".join(sorted(CELLS, key=len, reverse=True))
_STEP = re.compile(rf"the response describes the object at (?P<cell>{_CELL})\.?")


def answer_criterion(query: Query, multiple_choice: bool) -> str:
    """The criterion that the answer is right, without the right answer."""
    return f"The final answer gives the {_answer_phrase(query, multiple_choice)}."


def step_criterion(cell: str) -> str:
    """The criterion that the response describes the object at this cell."""
    return f"The response describes the object at {cell}."


def parse_step_criterion(text: str) -> Cell | None:
    """The cell of a step's criterion; None for any other text."""
    match = _STEP.fullmatch(_plain(text))
    return match["cell"] if match else None  # type: ignore[return-value]


def is_answer_criterion(text: str) -> bool:
    return _ANSWER.fullmatch(_plain(text)) is not None


def _answer_phrase(query: Query, multiple_choice: bool) -> str:
    if multiple_choice:
        return "letter of the right option"
    subject = f"{query.colour} {query.shape}"
    match query.task:
        case "count":
            kind = f"{query.shape}s" if query.shape else f"{query.colour} objects" if query.colour else "objects"
            return f"number of {kind}"
        case "colour":
            return f"colour of the object at {query.cell}"
        case "relation":
            return f"side on which the {subject} is" if query.axis == "side" else f"height at which the {subject} is"
        case "word":
            return "written word"
        case "box":
            return f"box of the object at {query.cell}"


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
