"""CapArena-Auto: each caption is compared with the caption of one of three baseline models (njucckevin/CapArena).

The benchmark's file gives every image a baseline and that baseline's caption: GPT-4o for 200 images, CogVLM2 and
MiniCPM for 200 each. The score against a baseline is (wins - losses) / 2, a percentage with 200 comparisons;
`caparena_auto` is their sum / 3. The benchmark's judge also sees a person's caption; here it sees only the image.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, NamedTuple

from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.evaluation.scorers.comparisons.pairwise import Order, PositionTally, compare
from rubricworks.evaluation.scorers.scorer import Item, Score, ScoreItem, Scorer, ScoringContext, Workload
from rubricworks.llm import ImageEndpoint
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import COMPARISON_IN, COMPARISON_OUT, PlannedCalls
from rubricworks.metrics.caparena import BASELINES
from rubricworks.storage import local_path

_FIELD = "evaluation.scorers.arena.baselines"


class CapArenaScorer(Scorer):
    name: ClassVar[str] = "caparena"
    title: ClassVar[str] = "Wins against CapArena's baselines"
    parts: ClassVar[tuple[str, ...]] = ("win",)

    judge: ImageEndpoint
    """Sees the image and both captions."""
    baselines: str
    """The benchmark's `caparena_auto_600.json`: image's file name → `ref_model` and `captions` by model."""
    order: Order = "random"
    """Positions: drawn at random, as the benchmark does, or both orders."""

    def unavailable(self) -> str | None:
        path = local_path(fill(self.baselines, _FIELD))
        return None if path.is_file() else f"{path}: there is no such file; it comes with CapArena's data"

    async def open(self, context: ScoringContext) -> ScoreItem:
        judge = await context.client(self.judge, "caparena")
        opponents = read_baselines(str(local_path(fill(self.baselines, _FIELD))))
        tally = context.tallies.setdefault(self.name, PositionTally())

        async def grade(item: Item) -> list[Score]:
            opponent = opponents.get(Path(item.sample.source).name) or opponents.get(item.sample.sample_id)
            if opponent is None:
                return self._missing(item, "the image is none of CapArena-Auto's")
            if item.model == opponent.model:
                return self._missing(item, "the model is the baseline itself")
            result = await compare(judge, item.image, item.text, opponent.caption, order=self.order, seed=context.seed)
            tally.add(result)
            evidence = (
                {"judgments": [judgment.model_dump() for judgment in result.judgments]}
                if self.order == "both"
                else {"reasons": [judgment.reason for judgment in result.judgments]}
            )
            return [
                Score(
                    sample_id=item.sample.sample_id,
                    part="win",
                    value=result.win,
                    against=opponent.model,
                    evidence=json.dumps(evidence, ensure_ascii=False),
                )
            ]

        return grade

    def plan(self, work: Workload) -> Iterator[PlannedCalls]:
        count = work.responses * (2 if self.order == "both" else 1)
        yield PlannedCalls("caparena", self.judge, count, image_tokens(self.judge) + COMPARISON_IN, COMPARISON_OUT)


class Baseline(NamedTuple):
    """The opponent of one image."""

    model: str
    caption: str


@lru_cache(maxsize=1)
def read_baselines(path: str) -> dict[str, Baseline]:
    """Read the benchmark's file: image's file name → its baseline.

    Raises:
        UserError: the file is no such JSON, or names a model that is no baseline.
    """
    baselines: dict[str, Baseline] = {}
    try:
        entries = json.loads(Path(path).read_text(encoding="utf-8"))
        for image, entry in entries.items():
            model = entry["ref_model"]
            if model not in BASELINES.values():
                raise UserError(f"{path}: {image}: {model} is no baseline; they are {', '.join(BASELINES.values())}")
            baselines[image] = Baseline(model, str(entry["captions"][model]))
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise UserError(
            f"{path}: not CapArena-Auto's file ({type(error).__name__}: {error}); it maps an image's file name to "
            "ref_model and captions"
        ) from error
    return baselines
