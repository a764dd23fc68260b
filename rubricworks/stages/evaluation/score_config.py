"""Settings of the stage `score`."""

from collections import Counter

from pydantic import Field, model_validator

from rubricworks.evaluation.models import Decoding, ModelSource
from rubricworks.evaluation.prompt_rewriting import REWRITING_VERSION
from rubricworks.evaluation.scoreboard import BASE, POLICY
from rubricworks.evaluation.scorers.scorer_table import Scorers
from rubricworks.llm import Endpoint
from rubricworks.runtime.config import StageConfig
from rubricworks.stages.data.visual_questions import VisualQuestions
from rubricworks.training.config import EngineOptions
from rubricworks.training.generators.config import ImageSampling


class Config(StageConfig):
    scorers: Scorers
    decodings: tuple[Decoding, ...] = Field(default=("greedy",), min_length=1)
    temperature: float = Field(default=1.0, gt=0)
    """Temperature of the sampled decoding."""
    max_new_tokens: int = Field(default=1024, ge=1)
    batch_size: int = Field(default=64, ge=1)
    guidance: float = Field(default=1.0, ge=0)
    """Classifier-free guidance of image generators; 1 is none."""
    rewriter: Endpoint | None = None
    """Model that writes prompts out before images are generated for them; scorers judge by the original prompts."""
    sampling: ImageSampling = ImageSampling()
    """Sampling of flow-matching image generators; their own by default."""
    engine: EngineOptions = EngineOptions()
    """Engine that writes the responses of model directories: `{kind: vllm}` on GPUs."""
    splits: tuple[str, ...] | None = ("held_out",)
    """Splits to score; None scores all samples."""
    opponent: str = BASE
    """Model that comparisons and gains are against."""
    policy: str = POLICY
    """Name of the trained model, the candidate for promotion."""
    peer: str = "peer"
    """Name of the model that was trained for comparison."""
    milestones: bool = False
    """Score every milestone that the trainings kept, instead of their ends."""
    select_by: str = "answers_right"
    """Figure that chooses the best milestone."""
    models: dict[str, ModelSource] = Field(default={})
    """Further models: directories, endpoints, or files of responses."""
    questions: VisualQuestions | None = None
    """Visual questions about the held-out pictures for all models; none by default."""

    @model_validator(mode="after")
    def _some_scorer(self) -> "Config":
        if not list(self.scorers):
            raise ValueError(f"scorers: none is given; name at least one of {', '.join(Scorers.model_fields)}")
        sets = [benchmark.name for benchmark in self.scorers.benchmarks]
        if repeated := [name for name, times in Counter(sets).items() if times > 1]:
            raise ValueError(f"scorers.benchmarks: {repeated[0]} is given twice")
        if self.select_by in sets[:1]:
            raise ValueError(
                f"select_by: {self.select_by} is the set that is reported, and a checkpoint chosen by it looks better "
                "than it is; give a second set of benchmarks, and choose by that one"
            )
        return self

    def versions(self) -> dict[str, str]:
        """A scorer that cannot score on this machine has a version of its own: it scores once it can."""
        rewriting = {"prompt_rewriting": REWRITING_VERSION} if self.rewriter else {}
        return {
            scorer.name: f"{scorer.version}, not available" if scorer.unavailable() else scorer.version
            for scorer in self.scorers
        } | rewriting
