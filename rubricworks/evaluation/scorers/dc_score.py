"""DCScore: a model splits captions into facts, matches them with the reference's and checks their truth.

`metrics.caption_facts` computes the score from its answers. Differences from DeCapBench's code: each matching and
verification is asked once, not three times and averaged, and the verifier sees only the image, not the reference
caption, because a model may have written the reference.
"""

import json
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from rubricworks.evaluation.scorers.caption_prompts import (
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
from rubricworks.evaluation.scorers.scorer import (
    Item,
    Need,
    Score,
    ScoreItem,
    Scorer,
    ScoringContext,
    Workload,
    gather_all,
)
from rubricworks.grading.assertions.texts import first_reference, has_words
from rubricworks.llm import ChatClient, ChatError, ImageEndpoint, image_part
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import (
    ASSERTION_TOKENS,
    ASSERTIONS_PER_CAPTION,
    CAPTION_TOKENS,
    GUIDE_TOKENS,
    PlannedCalls,
)
from rubricworks.metrics import NO_WORDS, DCScore, StatedFact, dc_score
from rubricworks.rubrics import ErrorClass


class DCScorer(Scorer):
    name: ClassVar[str] = "dc_score"
    title: ClassVar[str] = "DCScore"
    parts: ClassVar[tuple[str, ...]] = ("score", "f1", "precision", "recall")
    needs: ClassVar[frozenset[Need]] = frozenset({"reference"})

    judge: ImageEndpoint
    """Splits captions into facts, matches them, and checks them against the image."""

    async def open(self, context: ScoringContext) -> ScoreItem:
        judge = FactJudge(await context.client(self.judge, "facts"))

        async def grade(item: Item) -> list[Score]:
            if not (reference := first_reference(item.sample.references)):
                return self._missing(item, "no reference")
            judgment = await judge.judge(item.image, item.text, reference)
            facts = {
                "caption": [fact.model_dump() for fact in judgment.stated],
                "reference": [fact.model_dump() for fact in judgment.reference],
            }
            every = judgment.score.every
            values = (judgment.score.score, every.f1, every.precision, every.recall)
            return self._scores(item, values, json.dumps(facts, sort_keys=True, ensure_ascii=False))

        return grade

    def plan(self, work: Workload) -> Iterator[PlannedCalls]:
        """Four calls per caption: its facts, the reference's facts, their matching, the check against the image."""
        listed = ASSERTIONS_PER_CAPTION * ASSERTION_TOKENS
        prompt = GUIDE_TOKENS + (2 * CAPTION_TOKENS + 2 * listed + image_tokens(self.judge)) // 4
        yield PlannedCalls("facts", self.judge, 4 * work.responses, prompt, listed)


class FactJudgment(NamedTuple):
    """Facts of a caption and of its reference, and the score computed from them."""

    stated: tuple[StatedFact, ...]
    reference: tuple[Fact, ...]
    score: DCScore


class FactJudge:
    """Judge that asks one model for the facts of captions, for matches, and for their truth."""

    def __init__(self, client: ChatClient) -> None:
        self.client = client

    async def judge(self, image: bytes, caption: str, reference: str) -> FactJudgment:
        """Score a caption; a caption without words scores 0 without any call.

        Raises:
            ChatError: a call failed, or no fact was found in the caption or in the reference.
            ValueError: the image is neither PNG nor JPEG.
        """
        if not has_words(caption):
            return FactJudgment((), (), NO_WORDS)
        image_part(image)
        facts, reference_facts = await gather_all(self._facts(caption, "caption"), self._facts(reference, "reference"))
        texts = [fact.fact for fact in facts]
        matches, checks = await gather_all(
            self.client.chat(
                match_messages(texts, [fact.fact for fact in reference_facts]),
                FactMatches,
                check=lambda answer: _check_matches(answer.matches, len(facts), len(reference_facts)),
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
        return FactJudgment(
            stated, tuple(reference_facts), dc_score(stated, [fact.relevant for fact in reference_facts])
        )

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
