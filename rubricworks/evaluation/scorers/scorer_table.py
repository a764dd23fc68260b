"""The scorers that a recipe can configure, each by its field: `evaluation: {scorers: {oracle: {url: …}}}`.

There is one class for each kind of responses, so that a recipe cannot name a scorer that its responses do not allow.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Self

from pydantic import BaseModel, model_validator

from rubricworks.evaluation.scorers.answers import AnswerScorer
from rubricworks.evaluation.scorers.b_capscore import BCapScorer
from rubricworks.evaluation.scorers.benchmark import BenchmarkScorer
from rubricworks.evaluation.scorers.caption_qa import CaptionQAScorer
from rubricworks.evaluation.scorers.capture import CaptureScorer
from rubricworks.evaluation.scorers.coco import CocoScorer
from rubricworks.evaluation.scorers.comparisons.arena import Arena
from rubricworks.evaluation.scorers.comparisons.blind_ranking import BlindRankingScorer
from rubricworks.evaluation.scorers.dc_score import DCScorer
from rubricworks.evaluation.scorers.functions import FunctionScorer
from rubricworks.evaluation.scorers.images.aesthetic import AestheticScorer
from rubricworks.evaluation.scorers.images.dpg import DpgScorer
from rubricworks.evaluation.scorers.images.geneval import GenevalScorer
from rubricworks.evaluation.scorers.images.painted_order import PaintedOrderScorer
from rubricworks.evaluation.scorers.likert import LikertScorer
from rubricworks.evaluation.scorers.oracle import OracleScorer
from rubricworks.evaluation.scorers.rubric_reward import AnswerRubricScorer, ImageRubricScorer, RubricScorer
from rubricworks.evaluation.scorers.scorer import Scorer
from rubricworks.evaluation.scorers.specs import SpecsScorer


class Scorers(BaseModel, extra="forbid", frozen=True):
    """Scorers of responses of any kind; unset scorers are not used."""

    functions: tuple[FunctionScorer, ...] = ()
    """A user's own scorers."""

    @model_validator(mode="after")
    def _some_scorer(self) -> Self:
        names = [scorer.name for scorer in self]
        if not names:
            first, *others = type(self).model_fields
            raise ValueError(f"none is given; name at least one of {', '.join([*others, first])}")
        if repeated := [name for name, times in Counter(names).items() if times > 1]:
            raise ValueError(f"{repeated[0]} is given twice")
        return self

    def __iter__(self) -> Iterator[Scorer]:  # type: ignore[override]
        """Iterate over the configured scorers: those by name, benchmarks, then functions."""
        settings = [getattr(self, field) for field in type(self).model_fields]
        for setting in settings:
            if isinstance(setting, Scorer):
                yield setting
            elif isinstance(setting, Arena):
                yield from setting.scorers()
        for several in reversed(settings):
            if isinstance(several, tuple):
                yield from several


class CaptionScorers(Scorers):
    """Scorers of captions."""

    rubric: RubricScorer | None = None
    arena: Arena | None = None
    b_capscore: BCapScorer | None = None
    dc_score: DCScorer | None = None
    caption_qa: CaptionQAScorer | None = None
    likert: LikertScorer | None = None
    oracle: OracleScorer | None = None
    """For evaluation only, like any truth."""
    coco: CocoScorer | None = None
    capture: CaptureScorer | None = None
    specs: SpecsScorer | None = None
    blind_ranking: BlindRankingScorer | None = None
    benchmarks: tuple[BenchmarkScorer, ...] = ()
    """General benchmarks. The first set is reported."""


class AnswerScorers(Scorers):
    """Scorers of answers to questions."""

    answers: AnswerScorer | None = None
    rubric: AnswerRubricScorer | None = None
    benchmarks: tuple[BenchmarkScorer, ...] = ()
    """General benchmarks; the first set is the one that is reported."""


class ImageScorers(Scorers):
    """Scorers of generated images."""

    rubric: ImageRubricScorer | None = None
    geneval: GenevalScorer | None = None
    """Images against their prompts; its detector must not be the judge that rewards."""
    dpg: DpgScorer | None = None
    """Questions about generated images."""
    aesthetic: AestheticScorer | None = None
    painted_order: PaintedOrderScorer | None = None
    """Sway of words painted into images over the judges."""
