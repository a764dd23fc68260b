"""The scorers that a recipe can configure, each by its field: `evaluation: {scorers: {oracle: {url: …}}}`."""

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from rubricworks.evaluation.scorers.answers import AnswerScorer
from rubricworks.evaluation.scorers.b_capscore import BCapScorer
from rubricworks.evaluation.scorers.benchmark import BenchmarkScorer
from rubricworks.evaluation.scorers.caption_qa import CaptionQAScorer
from rubricworks.evaluation.scorers.capture import CaptureScorer
from rubricworks.evaluation.scorers.coco import CocoScorer
from rubricworks.evaluation.scorers.comparisons.blind_ranking import BlindRankingScorer
from rubricworks.evaluation.scorers.comparisons.caparena import CapArenaScorer
from rubricworks.evaluation.scorers.comparisons.pairwise import ArenaScorer
from rubricworks.evaluation.scorers.comparisons.tournament import TournamentScorer
from rubricworks.evaluation.scorers.dc_score import DCScorer
from rubricworks.evaluation.scorers.functions import FunctionScorer
from rubricworks.evaluation.scorers.images.aesthetic import AestheticScorer
from rubricworks.evaluation.scorers.images.dpg import DpgScorer
from rubricworks.evaluation.scorers.images.geneval import GenevalScorer
from rubricworks.evaluation.scorers.images.painted_order import PaintedOrderScorer
from rubricworks.evaluation.scorers.likert import LikertScorer
from rubricworks.evaluation.scorers.oracle import OracleScorer
from rubricworks.evaluation.scorers.rubric_reward import RubricScorer
from rubricworks.evaluation.scorers.scorer import Scorer
from rubricworks.evaluation.scorers.specs import SpecsScorer


class Scorers(BaseModel):
    """Scorers of an evaluation; one that is left out does not score."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rubric: RubricScorer | None = None
    arena: ArenaScorer | None = None
    b_capscore: BCapScorer | None = None
    dc_score: DCScorer | None = None
    caption_qa: CaptionQAScorer | None = None
    answers: AnswerScorer | None = None
    likert: LikertScorer | None = None
    oracle: OracleScorer | None = None
    """For evaluation only, like any truth."""
    geneval: GenevalScorer | None = None
    """Images against their prompts; its detector must not be the judge that rewards."""
    coco: CocoScorer | None = None
    capture: CaptureScorer | None = None
    specs: SpecsScorer | None = None
    caparena: CapArenaScorer | None = None
    tournament: TournamentScorer | None = None
    blind_ranking: BlindRankingScorer | None = None
    dpg: DpgScorer | None = None
    """Questions about generated images."""
    aesthetic: AestheticScorer | None = None
    painted_order: PaintedOrderScorer | None = None
    """Sway of words painted into images over the judges."""
    benchmarks: tuple[BenchmarkScorer, ...] = ()
    """General benchmarks; the first set is the one that is reported."""
    functions: tuple[FunctionScorer, ...] = ()
    """A user's own scorers."""

    def __iter__(self) -> Iterator[Scorer]:  # type: ignore[override]
        """Iterate over the configured scorers, in the order of the fields."""
        for field in type(self).model_fields:
            if isinstance(value := getattr(self, field), Scorer):
                yield value
        yield from self.benchmarks
        yield from self.functions
