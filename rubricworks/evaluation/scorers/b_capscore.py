"""b-CapScore: harmonic mean of a caption's precision, recall and linguistic quality (BalCapRL, appendix A.4).

A judge lists and rates the assertions of the caption and of its reference, and checks them against the image. The
linguistic score is ungated here: length is the policy's matter.
"""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from rubricworks.evaluation.scorers.scorer import Item, Need, Score, ScoreItem, Scorer, ScoringContext, Workload
from rubricworks.grading import AssertionGrader, Pointability
from rubricworks.grading.assertions.texts import MIN_OVERLAP, first_reference
from rubricworks.llm import Endpoint, ImageEndpoint
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import (
    ASSERTION_TOKENS,
    ASSERTIONS_PER_CAPTION,
    CAPTION_TOKENS,
    GUIDE_TOKENS,
    PlannedCalls,
)


class BCapScorer(Scorer):
    name: ClassVar[str] = "b_capscore"
    title: ClassVar[str] = "b-CapScore"
    parts: ClassVar[tuple[str, ...]] = ("score", "precision", "recall", "linguistic")
    needs: ClassVar[frozenset[Need]] = frozenset({"reference"})

    judge: ImageEndpoint
    """Lists and rates assertions, and checks them against the image."""
    pointability: Pointability = "evidence"
    """Accepts assertions that visible evidence justifies (appendix A.4); training is stricter."""
    min_overlap: float = Field(default=MIN_OVERLAP, ge=0, le=1)
    """Share of an assertion's content words that its text must contain, or else the assertion is dropped; 0 drops none,
    as in the paper (`grading.assertions.texts`).
    """

    async def open(self, context: ScoringContext) -> ScoreItem:
        from rubricworks.metrics import b_capscore

        judge = await context.client(self.judge, "assertions")
        grader = AssertionGrader(
            judge,
            pointability=self.pointability,
            min_overlap=self.min_overlap,
            on_error=context.on_failure,
        )

        async def grade(item: Item) -> list[Score]:
            sample = item.sample
            if not (reference := first_reference(sample.references)):
                return self._missing(item, "no reference")
            graded = await grader.grade(sample.sample_id, item.image, item.text, reference)
            evidence = graded.model_dump_json()
            scores = graded.scores
            if scores is None or scores.precision is None or scores.recall is None:
                reason = graded.error.value if graded.error else "no assertions"
                first, *others = self._missing(item, reason)
                return [first.model_copy(update={"evidence": evidence}), *others]
            parts = (scores.precision, scores.recall, scores.linguistic)
            return self._scores(item, (b_capscore(*parts), *parts), evidence)

        return grade

    def plan(self, work: Workload) -> Iterator[PlannedCalls]:
        return assertion_calls(self.judge, None, work.responses)


def assertion_calls(judge: Endpoint, verifier: Endpoint | None, captions: int) -> Iterator[PlannedCalls]:
    """Yield one call per caption, with the image unless a verifier checks it in a second call."""
    listed = ASSERTIONS_PER_CAPTION * ASSERTION_TOKENS
    prompt = GUIDE_TOKENS + 2 * CAPTION_TOKENS + (0 if verifier else image_tokens(judge))
    yield PlannedCalls("judge", judge, captions, prompt, 2 * listed)
    if verifier:
        yield PlannedCalls("verifier", verifier, captions, GUIDE_TOKENS + image_tokens(verifier) + listed, listed)
