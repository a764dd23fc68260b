"""SPECS: similarity of image and caption by a CLIP model that is trained for specificity; no reference is needed.

The encoder is any model that transformers loads as CLIP does (`get_image_features`, `get_text_features`): SPECS' own
weights in that form, or another CLIP for comparison. Captions longer than its text encoder are cut at its end. Without
a GPU it runs on the CPU.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rubricworks.evaluation.encoders import ClipEncoder, missing_model
from rubricworks.evaluation.scorers.scorer import Item, Score, ScoreBatch, ScoreItem, Scorer, ScoringContext
from rubricworks.metrics import specs_score

_CHUNK = 16


class SpecsScorer(Scorer):
    name: ClassVar[str] = "specs"
    title: ClassVar[str] = "SPECS"

    encoder: str
    """Directory of the CLIP model, or its name on the Hub, with its commit: org/name@COMMIT."""

    @property
    def version(self) -> str:  # type: ignore[override]
        """Two encoders give two versions of the score."""
        return f"1 ({Path(self.encoder).name})"

    def unavailable(self) -> str | None:
        return missing_model(self.encoder)

    async def open(self, context: ScoringContext) -> ScoreItem:
        score = await self.open_batch(context)
        return lambda item: score([item])

    async def open_batch(self, context: ScoringContext) -> ScoreBatch:
        encoder = await asyncio.to_thread(ClipEncoder, self.encoder, "scorers.specs.encoder")

        async def score(items: Sequence[Item]) -> list[Score]:
            scores: list[Score] = []
            for start in range(0, len(items), _CHUNK):
                chunk = items[start : start + _CHUNK]
                vectors = await asyncio.to_thread(
                    encoder.encode, [item.image for item in chunk], [item.text for item in chunk]
                )
                for item, image, text in zip(chunk, *vectors, strict=True):
                    scores += self._scores(item, specs_score(image, [text]))
            return scores

        return score
