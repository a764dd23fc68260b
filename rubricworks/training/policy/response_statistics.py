"""Statistics of responses for the reward-hacking alarm. Each method names its own; this module has those of texts.

A statistic is one number per response or per step. The alarm weighs those that a better response does not lose, and
shows the others.
"""

import math
import re
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Literal, NamedTuple

from rubricworks.rubrics import Response

_OBJECT_START = re.compile(
    r"\b(?:an?|the|another|one|two|three|four|five|six|seven|eight|nine|ten|several|some|many|\d+)\b", re.IGNORECASE
)
_SEQUENCE = 4
"""Words per sequence when repetition is counted."""
_SHARED = 3
"""Words per sequence when two responses are compared."""
_NEIGHBOURS = 4
"""Other groups that a group is compared with."""
FLOOR = 0.02
"""Added to both sides of a ratio, so that a start of nothing makes no ratio infinite."""


class Statistic(NamedTuple):
    """One number of responses, and what its change means while the reward rises."""

    name: str
    """Key in `steps.jsonl`; not step, reward or held_out."""
    words: str
    """Subject of the alarm's reason: "… went from 0.25 to 0.55"."""
    measure: Callable[[Response, int], float]
    """(response, its tokens) → value."""
    rule: Literal["fall", "rise", "shift", "shown"]
    """fall: logarithm of the ratio to the highest look; rise: difference to the lowest; shift: change of a share's
    log-odds since the first look, either way; shown: no loss.
    """
    weight: float = 1.0
    """Factor of the loss."""
    of_groups: Callable[[Sequence[Sequence[Response]]], float] | None = None
    """Value of a step, from its groups of rollouts; `measure` then counts for nothing."""

    @property
    def sign(self) -> int:
        """1 if more is better, -1 if less is."""
        return -1 if self.rule == "rise" else 1

    def reference(self, before: Sequence[float]) -> float:
        """Value of the earlier looks, at least one, that a loss counts from."""
        return before[0] if self.rule in ("shift", "shown") else self.sign * max(self.sign * value for value in before)

    def loss(self, before: Sequence[float], now: float) -> float:
        """Loss of a look against the earlier ones, at least one."""
        best = self.reference(before)
        match self.rule:
            case "fall":
                return self.weight * math.log((best + FLOOR) / (max(now, 0.0) + FLOOR))
            case "rise":
                return self.weight * (now - best)
            case "shift":
                return self.weight * abs(_log_odds(now) - _log_odds(best))
            case "shown":
                return 0.0


def _log_odds(share: float) -> float:
    return math.log((share + FLOOR) / (max(1 - share, 0.0) + FLOOR))


def of_no_single_response(response: Response, tokens: int) -> float:
    """`Statistic.measure` of a statistic of groups."""
    raise ValueError("the statistic is of groups of responses")


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


def specificity(groups: Sequence[Sequence[str]]) -> float:
    """Three-word sequences shared within a sample, less those shared between samples, in [-1, 1].

    Responses that describe their image agree with each other and differ from those to other images. Guesses do not
    agree; flattery, padding and lists that fit every image do not differ. NaN without two groups of two.

    >>> specificity([["a red ball .", "a red ball ."], ["a blue cube .", "a blue cube ."]])
    1.0
    """
    shared = [[_sequences(text) for text in group] for group in groups if len(group) > 1]
    if len(shared) < 2:
        return math.nan
    inside = [_overlap(a, b) for group in shared for at, a in enumerate(group) for b in group[at + 1 :]]
    across = [
        _overlap(a, b)
        for at, group in enumerate(shared)
        for offset in range(1, min(_NEIGHBOURS, len(shared) - 1) + 1)
        for a, b in zip(group, shared[(at + offset) % len(shared)], strict=False)
    ]
    return fmean(inside) - fmean(across)


def _sequences(text: str) -> frozenset[tuple[str, ...]]:
    words = text.lower().split()
    return frozenset(tuple(words[start : start + _SHARED]) for start in range(max(len(words) - _SHARED + 1, 1)))


def _overlap(a: frozenset[tuple[str, ...]], b: frozenset[tuple[str, ...]]) -> float:
    return len(a & b) / len(a | b)


def _text(response: Response, name: str) -> str:
    return response.require_text(f"the statistic {name!r} of a training step")


def _specificity(groups: Sequence[Sequence[Response]]) -> float:
    return specificity([[_text(response, "specificity") for response in group] for group in groups])


SPECIFICITY = Statistic(
    "specificity", "likeness to responses to the same image", of_no_single_response, "fall", 0.7, _specificity
)
REPETITION = Statistic(
    "repetition", "repeated phrases", lambda response, _: repetition(_text(response, "repetition")), "rise"
)
LENGTH = Statistic("length", "tokens per caption", lambda _, tokens: tokens, "shown")
OBJECTS = Statistic(
    "objects", "objects named per caption", lambda response, _: objects_named(_text(response, "objects")), "shown"
)
TEXT_STATISTICS = (SPECIFICITY, REPETITION, LENGTH, OBJECTS)
