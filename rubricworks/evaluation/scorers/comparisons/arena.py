"""Comparisons by one pairwise judge: with the opponent, with every other model, or with CapArena-Auto's baselines."""

import json
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field

from rubricworks.evaluation.scorers.comparisons.caparena import CapArenaScorer
from rubricworks.evaluation.scorers.comparisons.pairwise import Order, PositionTally, compare
from rubricworks.evaluation.scorers.comparisons.tournament import TournamentScorer
from rubricworks.evaluation.scorers.scorer import Item, Need, Score, ScoreItem, Scorer, ScoringContext, Workload
from rubricworks.llm import ImageEndpoint
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import COMPARISON_IN, COMPARISON_OUT, PlannedCalls


class Arena(BaseModel, extra="forbid", frozen=True):
    """Settings of the comparisons; each is a scorer with figures of its own."""

    judge: ImageEndpoint
    """Sees the image and both captions."""
    order: Order = "random"
    """Positions: drawn at random (CapArena), or both orders; a tournament has both."""
    against: tuple[Literal["opponent", "models"], ...] = Field(default=("opponent",), min_length=1)
    """`opponent` gives `arena_win`; `models` is a tournament of every two models."""
    baselines: str | None = None
    """CapArena-Auto's `caparena_auto_600.json`; with it, responses are compared with its baselines' captions too."""

    def scorers(self) -> Iterator[Scorer]:
        if "opponent" in self.against:
            yield ArenaScorer(judge=self.judge, order=self.order)
        if self.baselines is not None:
            yield CapArenaScorer(judge=self.judge, order=self.order, baselines=self.baselines)
        if "models" in self.against:
            yield TournamentScorer(judge=self.judge)


class ArenaScorer(Scorer):
    name: ClassVar[str] = "arena"
    title: ClassVar[str] = "Arena win rate"
    parts: ClassVar[tuple[str, ...]] = ("win",)
    needs: ClassVar[frozenset[Need]] = frozenset({"opponent"})

    judge: ImageEndpoint
    """Sees the image and both captions."""
    order: Order = "random"
    """Positions: drawn at random (CapArena), or both orders."""

    async def open(self, context: ScoringContext) -> ScoreItem:
        judge = await context.client(self.judge, "arena")
        tally = context.tallies.setdefault(self.name, PositionTally())

        async def grade(item: Item) -> list[Score]:
            if item.opponent is None:
                return self._missing(item, "no response of the opponent")
            texts = (item.text, item.opponent_text)
            result = await compare(judge, item.image, *texts, order=self.order, seed=context.seed)
            tally.add(result)
            evidence: dict[str, Any] = {"reasons": [judgment.reason for judgment in result.judgments]}
            if self.order == "both":
                evidence["judgments"] = [judgment.judgment for judgment in result.judgments]
            return self._scores(item, (result.win,), json.dumps(evidence, ensure_ascii=False))

        return grade

    def plan(self, work: Workload) -> Iterator[PlannedCalls]:
        count = work.compared * (2 if self.order == "both" else 1)
        yield PlannedCalls("arena", self.judge, count, image_tokens(self.judge) + COMPARISON_IN, COMPARISON_OUT)
