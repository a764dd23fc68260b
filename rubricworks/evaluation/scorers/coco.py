"""COCO's caption metrics against reference captions: BLEU, METEOR, ROUGE-L and CIDEr (pycocoevalcap).

Each part has a value per caption, whose mean and paired differences have intervals. BLEU and METEOR of a corpus are no
means of its captions' scores: `corpus_bleu_1` to `corpus_bleu_4` and `corpus_meteor` are the figures that papers
report, one per model. ROUGE-L and CIDEr of a corpus are means over captions. CIDEr lies in [0, 10] and depends on the
references of all images.
"""

import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from typing import ClassVar

from rubricworks.evaluation.scorers.scorer import Item, Need, Score, ScoreBatch, ScoreItem, Scorer, ScoringContext
from rubricworks.metrics.coco import caption_and_corpus_scores

_PARTS = {
    "rouge_l": "ROUGE_L",
    "meteor": "METEOR",
    "bleu_4": "Bleu_4",
    "cider": "CIDEr",
    "bleu_1": "Bleu_1",
    "bleu_2": "Bleu_2",
    "bleu_3": "Bleu_3",
}
_CORPUS = {
    "corpus_bleu_4": "Bleu_4",
    "corpus_meteor": "METEOR",
    "corpus_bleu_1": "Bleu_1",
    "corpus_bleu_2": "Bleu_2",
    "corpus_bleu_3": "Bleu_3",
}


class CocoScorer(Scorer):
    name: ClassVar[str] = "coco"
    title: ClassVar[str] = "COCO"
    parts: ClassVar[tuple[str, ...]] = tuple(_PARTS)
    needs: ClassVar[frozenset[Need]] = frozenset({"reference"})
    unbounded: ClassVar[tuple[str, ...]] = ("cider",)
    needs_corpus: ClassVar[bool] = True

    def titles(self) -> dict[str, str]:
        names = {"rouge_l": "ROUGE-L", "meteor": "METEOR", "cider": "CIDEr"}
        names |= {f"bleu_{order}": f"BLEU-{order} per caption" for order in range(1, 5)}
        names |= {f"corpus_bleu_{order}": f"BLEU-{order}" for order in range(1, 5)}
        names["meteor"], names["corpus_meteor"] = "METEOR per caption", "METEOR"
        return {f"coco_{part}": names[part] for part in (*_PARTS, *_CORPUS)}

    def unavailable(self) -> str | None:
        if find_spec("pycocoevalcap") is None:
            return "pycocoevalcap is not installed; pip install 'rubricworks[eval]'"
        if shutil.which("java") is None:
            return "there is no `java` on the PATH; install a Java runtime (Debian: default-jre-headless)"
        return None

    async def open(self, context: ScoringContext) -> ScoreItem:
        score = await self.open_batch(context)
        return lambda item: score([item])

    async def open_batch(self, context: ScoringContext) -> ScoreBatch:
        async def score(items: Sequence[Item]) -> list[Score]:
            references = {item.sample.sample_id: _references(item) for item in items}
            usable = [item for item in items if references[item.sample.sample_id]]
            missing = [score for item in items for score in self._missing(item, "no reference") if item not in usable]
            if not usable:
                return missing
            results = caption_and_corpus_scores(
                {item.sample.sample_id: item.text for item in usable},
                {item.sample.sample_id: references[item.sample.sample_id] for item in usable},
            )
            scores = [
                score
                for item in usable
                for score in self._scores(
                    item, [results.captions[item.sample.sample_id][key] for key in _PARTS.values()]
                )
            ]
            corpus = [Score(sample_id=None, part=part, value=results.corpus[key]) for part, key in _CORPUS.items()]
            return [*scores, *missing, *corpus]

        return score


def _references(item: Item) -> list[str]:
    return [text for text in item.sample.references if text.strip()]
