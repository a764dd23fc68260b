"""DCScore's fact judge: a model splits captions into facts, matches them with the reference's and checks their truth.

`metrics.caption_facts` computes the score from its answers. Differences from DeCapBench's code: each matching and
verification is asked once, not three times and averaged, and the verifier sees only the image, not the reference
caption, because a model may have written the reference.
"""

from collections.abc import Sequence
from typing import NamedTuple

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
from rubricworks.evaluation.scorers.gather import gather_all
from rubricworks.grading.assertion_texts import has_words
from rubricworks.llm import ChatClient, ChatError, image_part
from rubricworks.metrics import NO_WORDS, DCScore, StatedFact, dc_score
from rubricworks.rubrics import ErrorClass


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
