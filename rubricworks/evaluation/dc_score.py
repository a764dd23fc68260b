"""DCScore: a caption's facts against a reference's facts and against the image (DeCapBench, ICLR 2025).

Precision is the share of the caption's facts that are true. The facts to be told are the reference's and, beyond them,
the true ones of the caption that match none; recall is the share that it tells. Where k facts of the caption match the
same reference fact, each that is true counts 1/k of it. The relevant variant leaves out what does not describe the
image, of the caption and of the reference; k still counts all. The score is the mean of both F1s.

As in the reference code, F1 is 2pr / (p + r + 1e-8). It asks for each matching and verification three times and
averages, we ask once; it shows the reference caption to the verifier, we show the image alone, because a reference may
be a model's. It drops a caption that has no relevant fact; here the relevant F1 of such a caption is 0.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from rubricworks.evaluation.caption_prompts import (
    Fact,
    FactCheck,
    FactChecks,
    FactMatch,
    FactMatches,
    Facts,
    decompose_messages,
    match_messages,
    verify_messages,
)
from rubricworks.evaluation.together import all_of
from rubricworks.grading.assertion_texts import has_words
from rubricworks.llm import ChatClient, ChatError, image_part
from rubricworks.rubrics import ErrorClass

_EPS = 1e-8


class StatedFact(BaseModel):
    """One fact of a caption, and what came of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fact: str
    relevant: bool = True
    """Whether it describes what can be seen."""
    is_true: bool
    reference: int | None = None
    """Position, from 0, of the reference fact that it matches."""


class FactScore(NamedTuple):
    """Of all facts, or of the relevant ones."""

    precision: float
    recall: float
    f1: float
    facts: int
    """Facts to be told: the reference's, and the caption's true ones beyond them."""


class DCScore(NamedTuple):
    every: FactScore
    relevant: FactScore

    @property
    def score(self) -> float:
        return (self.every.f1 + self.relevant.f1) / 2


NO_WORDS = DCScore(FactScore(0.0, 0.0, 0.0, 0), FactScore(0.0, 0.0, 0.0, 0))
"""Of a caption that says nothing at all."""


class JudgedFacts(NamedTuple):
    """A caption's facts, the reference's, and the score that follows."""

    stated: tuple[StatedFact, ...]
    reference: tuple[Fact, ...]
    score: DCScore


def dc_score(stated: Sequence[StatedFact], reference_relevant: Sequence[bool]) -> DCScore:
    """The scores of one caption.

    Args:
        stated: the caption's facts, at least one.
        reference_relevant: for each fact of the reference whether it describes what can be seen.
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
    sharing = Counter(fact.reference for fact in stated)
    relevant = [fact for fact in stated if fact.relevant]
    return DCScore(
        _score(stated, len(reference_relevant), sharing),
        _score(relevant, sum(reference_relevant), sharing),
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


def _score(stated: Sequence[StatedFact], reference: int, sharing: Counter[int | None]) -> FactScore:
    true = [fact for fact in stated if fact.is_true]
    beyond = sum(fact.reference is None for fact in true)
    told = sum(1.0 if fact.reference is None else 1 / sharing[fact.reference] for fact in true)
    precision = len(true) / len(stated) if stated else 0.0
    recall = told / (reference + beyond) if reference + beyond else 0.0
    return FactScore(precision, recall, 2 * precision * recall / (precision + recall + _EPS), reference + beyond)


class FactJudge:
    """Asks one model for the facts of captions, for matches, and for their truth."""

    def __init__(self, client: ChatClient) -> None:
        self.client = client

    async def judge(self, image: bytes, caption: str, reference: str) -> JudgedFacts:
        """The score of a caption. One without words scores 0, and nothing is asked.

        Raises:
            ChatError: a call failed, or no fact was found in the caption or in the reference.
            ValueError: the image is neither PNG nor JPEG.
        """
        if not has_words(caption):
            return JudgedFacts((), (), NO_WORDS)
        image_part(image)
        facts, told = await all_of(self._facts(caption, "caption"), self._facts(reference, "reference"))
        texts = [fact.fact for fact in facts]
        matches, checks = await all_of(
            self.client.chat(
                match_messages(texts, [fact.fact for fact in told]),
                FactMatches,
                check=lambda answer: _check_matches(answer.matches, len(facts), len(told)),
            ),
            self.client.chat(
                verify_messages(image, texts), FactChecks, check=lambda answer: _check_order(answer.checks, len(facts))
            ),
        )
        stated = tuple(
            StatedFact(
                fact=fact.fact,
                relevant=fact.relevant,
                is_true=check.is_true,
                reference=None if match.reference is None else match.reference - 1,
            )
            for fact, match, check in zip(facts, matches.value.matches, checks.value.checks, strict=True)
        )
        return JudgedFacts(stated, tuple(told), dc_score(stated, [fact.relevant for fact in told]))

    async def _facts(self, text: str, what: str) -> tuple[Fact, ...]:
        reply = await self.client.chat(decompose_messages(text), Facts)
        if not reply.value.facts:
            raise ChatError(ErrorClass.MALFORMED, f"no fact was found in the {what}", reply.raw)
        return reply.value.facts


def _check_matches(matches: Sequence[FactMatch], facts: int, reference: int) -> None:
    _check_order(matches, facts)
    if outside := [match.reference for match in matches if match.reference and match.reference > reference]:
        raise ValueError(f"there is no reference fact {outside[0]}; they are numbered 1 to {reference}")


def _check_order(entries: Sequence[FactMatch | FactCheck], facts: int) -> None:
    if [entry.fact for entry in entries] != list(range(1, facts + 1)):
        raise ValueError(f"give one entry for each of the facts 1 to {facts}, in order")
