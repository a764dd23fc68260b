"""Statistics of responses that the reward-hacking alarm watches. Each method names its own; these are those of texts.

A statistic is one number per response, averaged over the rollouts of a step. It is chosen such that a better response
does not need to change it: a caption that lists twice as many objects, or an image that is mere noise, is suspicious.
"""

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from rubricworks.rubrics import Response

_OBJECT_START = re.compile(
    r"\b(?:an?|the|another|one|two|three|four|five|six|seven|eight|nine|ten|several|some|many|\d+)\b", re.IGNORECASE
)
_SEQUENCE = 4
"""Words per sequence when repetition is counted."""


class Statistic(NamedTuple):
    """One number of a response, and the change of its mean that is suspicious while the reward rises."""

    name: str
    """Key in `steps.jsonl`; not step, reward or held_out."""
    words: str
    """Subject of the alarm's reason: "… went from 2.5 to 5.5"."""
    measure: Callable[[Response, int], float]
    """(response, its tokens) → value."""
    rule: Literal["factor", "rise", "collapse"]
    """factor: growth or shrinkage by `AlarmConfig.growth`; rise: of a share in [0, 1], by `repetition_gain`; collapse:
    to less than `AlarmConfig.collapse` of the start."""
    of_group: Callable[[Sequence[Response]], float] | None = None
    """Value of a whole group of rollouts; `measure` then counts for nothing."""


def of_no_single_response(response: Response, tokens: int) -> float:
    """`Statistic.measure` of a statistic of groups."""
    raise ValueError("the statistic is of a group of responses")


def objects_named(text: str) -> int:
    """Count the phrases that begin with a determiner or a number: a, an, the, two, 3, several, ...

    >>> objects_named("at top-left a big red circle . two small squares")
    2
    """
    return len(_OBJECT_START.findall(text))


def repetition(text: str) -> float:
    """Share of four-word sequences that occur earlier in the same text, in [0, 1].

    >>> round(repetition("a red ball . a red ball ."), 2)
    0.2
    """
    words = text.lower().split()
    sequences = [tuple(words[start : start + _SEQUENCE]) for start in range(len(words) - _SEQUENCE + 1)]
    return 1 - len(set(sequences)) / len(sequences) if sequences else 0.0


def _text(response: Response, name: str) -> str:
    return response.require_text(f"the statistic {name!r} of a training step")


OBJECTS = Statistic(
    "objects", "objects named per caption", lambda response, _: objects_named(_text(response, "objects")), "factor"
)
LENGTH = Statistic("length", "tokens per caption", lambda _, tokens: tokens, "factor")
REPETITION = Statistic(
    "repetition", "repeated phrases", lambda response, _: repetition(_text(response, "repetition")), "rise"
)
TEXT_STATISTICS = (OBJECTS, LENGTH, REPETITION)
