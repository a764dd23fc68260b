"""DCScore's fact judge: a model splits captions into facts, matches them with the reference's and checks their truth.

`metrics.caption_facts` makes the score of its answers. DeCapBench's code asks for each matching and verification three
times and averages, this judge asks once; it shows the reference caption to the verifier, this judge shows the image
alone, because a reference may be a model's.
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
from rubricworks.evaluation.scorers.gather import all_of
from rubricworks.grading.assertion_texts import has_words
from rubricworks.llm import ChatClient, ChatError, image_part
from rubricworks.metrics import NO_WORDS, DCScore, StatedFact, dc_score
from rubricworks.rubrics import ErrorClass


class JudgedFacts(NamedTuple):
    """A caption's facts, the reference's, and the score that follows."""

    stated: tuple[StatedFact, ...]
    reference: tuple[Fact, ...]
    score: DCScore


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
