"""Scores of captions: b-CapScore, DCScore over facts, and CaptionQA over questions.

b-CapScore: precision, recall and language quality of a caption in one number (BalCapRL, equation A.1).

The score is per caption, and the benchmark's figure is its mean. Precision comes from the evaluation prompt's looser
test, where visible evidence justifies a claim (appendix A.4); linguistic is not gated by length.

DCScore: precision and recall of a caption's facts (DeCapBench, ICLR 2025).

Precision is the share of the caption's facts that are true. The facts to cover are those of the reference and, beyond
them, the caption's true facts that match none of them; recall is the share that the caption covers. Where k facts of
the caption match the same reference fact, each that is true covers 1/k of it. The relevant variant drops facts that do
not describe the image, on both sides; k still counts all. F1 is 2pr / (p + r + 1e-8), and the score is the mean of both
F1s. A caption without a relevant fact, which the reference code drops, has a relevant F1 of 0.

Source: compute_precision_recall and compute_results.py of MAGAer13/DeCapBench.

CaptionQA's rules: the options that a question offers, and the option that an answer names.

Questions other than yes-or-no ones get one more option: that the caption does not say. Source: qa.py of
bronyayang/CaptionQA. Its yes-or-no test is a substring test, so "None" counts as a "no".
"""

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict


def b_capscore(precision: float, recall: float, linguistic: float) -> float:
    """3 / (1/precision + 1/recall + 1/linguistic), in [0, 1]; 0 if any of them is 0.

    Raises:
        ValueError: one lies outside [0, 1] or is missing: leave the caption out of the average.
    """
    parts = {"precision": precision, "recall": recall, "linguistic": linguistic}
    for name, value in parts.items():
        if value is None or not 0 <= value <= 1:
            raise ValueError(f"{name} is {value}; b-CapScore takes numbers between 0 and 1")
    return float(statistics.harmonic_mean(parts.values()))


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


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
CANNOT_ANSWER = "Cannot answer from the caption"

_OPENINGS = (
    *("is ", "are ", "was ", "were ", "do ", "does ", "did ", "have ", "has ", "had ", "can ", "could "),
    *("will ", "would ", "should ", "shall ", "may ", "might ", "must "),
)
_LETTER = re.compile(r"\b([A-Z])\b")
_NUMBER = re.compile(r"\b([1-9][0-9]?)\b")


def extract_letter(response: str, num_options: int) -> str | None:
    """The letter of the option that an answer names, None if it names none.

    The first letter that stands alone counts, or else the first number. Only the text after `</think>`, then after
    `Answer: `, then after the first line break is read, where these occur.
    """
    for mark in ("</think>", "Answer: ", "\n"):
        _, separator, after = response.partition(mark)
        response = after if separator else response
    options = LETTERS[: max(1, num_options)]
    letter = _LETTER.search(response.upper())
    if letter and letter[1] in options:
        return letter[1]
    number = _NUMBER.search(response)
    if number and int(number[1]) <= len(options):
        return options[int(number[1]) - 1]
    return None


def is_yes_no(question: str, options: Sequence[str]) -> bool:
    """Return True if `yes` and `no` both occur in the options, even inside a word, or the question opens like one."""
    lowered = [option.strip().lower() for option in options]
    if any("yes" in option for option in lowered) and any("no" in option for option in lowered):
        return True
    return question.strip().lower().startswith(_OPENINGS)


def offered_options(question: str, options: Sequence[str]) -> tuple[str, ...]:
    """The options, with `CANNOT_ANSWER` as the last unless the question is a yes-or-no question."""
    return tuple(options) if is_yes_no(question, options) else (*options, CANNOT_ANSWER)
