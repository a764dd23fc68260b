"""DCScore: precision and recall of a caption's facts (DeCapBench, ICLR 2025).

Precision is the share of the caption's facts that are true. The facts to cover are those of the reference and, beyond
them, the caption's true facts that match none of them; recall is the share that the caption covers. Where k facts of
the caption match the same reference fact, each that is true covers 1/k of it. The relevant variant drops facts that do
not describe the image, on both sides; k still counts all. F1 is 2pr / (p + r + 1e-8), and the score is the mean of both
F1s. A caption without a relevant fact, which the reference code drops, has a relevant F1 of 0.

Source: compute_precision_recall and compute_results.py of MAGAer13/DeCapBench.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

_EPS = 1e-8


class StatedFact(BaseModel):
    """One fact of a caption with its verdicts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fact: str
    relevant: bool = True
    """True if it describes something that can be seen."""
    is_true: bool
    reference: int | None = None
    """Position, from 0, of the reference fact that it matches."""


class FactScore(NamedTuple):
    """Precision, recall and F1 over all facts, or over the relevant ones."""

    precision: float
    recall: float
    f1: float
    facts: int
    """Facts to cover: the reference's, and the caption's true ones beyond them."""


class DCScore(NamedTuple):
    """The two scores of one caption."""

    every: FactScore
    relevant: FactScore

    @property
    def score(self) -> float:
        """Mean of both F1s, in [0, 1]."""
        return (self.every.f1 + self.relevant.f1) / 2


NO_WORDS = DCScore(FactScore(0.0, 0.0, 0.0, 0), FactScore(0.0, 0.0, 0.0, 0))
"""Score of a caption without words."""


def dc_score(stated: Sequence[StatedFact], reference_relevant: Sequence[bool]) -> DCScore:
    """Score one caption.

    Args:
        stated: the caption's facts, at least one.
        reference_relevant: one entry per fact of the reference: True if it describes something that can be seen.
    Raises:
        ValueError: the caption or the reference has no fact, or a match points outside the reference.
    """
    if not stated or not reference_relevant:
        raise ValueError(
            f"{len(stated)} facts of the caption, {len(reference_relevant)} of the reference; each needs one"
        )
    for fact in stated:
        if fact.reference is not None and not 0 <= fact.reference < len(reference_relevant):
            raise ValueError(f"{fact.fact!r} matches fact {fact.reference} of {len(reference_relevant)}, from 0")
    matches = Counter(fact.reference for fact in stated)
    relevant = [fact for fact in stated if fact.relevant]
    return DCScore(
        _score(stated, len(reference_relevant), matches),
        _score(relevant, sum(reference_relevant), matches),
    )


def mean_dc_score(scores: Iterable[DCScore]) -> float:
    """The benchmark's figure, from 0 to 100.

    Raises:
        ValueError: there is no score.
    """
    values = [score.score for score in scores]
    if not values:
        raise ValueError("no caption has a score")
    return 100 * sum(values) / len(values)


def _score(stated: Sequence[StatedFact], reference: int, matches: Counter[int | None]) -> FactScore:
    true = [fact for fact in stated if fact.is_true]
    beyond = sum(fact.reference is None for fact in true)
    covered = sum(1.0 if fact.reference is None else 1 / matches[fact.reference] for fact in true)
    precision = len(true) / len(stated) if stated else 0.0
    recall = covered / (reference + beyond) if reference + beyond else 0.0
    return FactScore(precision, recall, 2 * precision * recall / (precision + recall + _EPS), reference + beyond)
