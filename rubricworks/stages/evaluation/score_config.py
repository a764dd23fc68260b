"""The section `evaluation:` of a recipe, which is the configuration of the stage `score`: one class for each kind of
responses.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rubricworks.evaluation.models import Decoding, ModelSource
from rubricworks.evaluation.own_prompts import Kind, OwnPrompt, OwnPromptName, read_own_prompt
from rubricworks.evaluation.prompt_rewriting import REWRITING_VERSION
from rubricworks.evaluation.scoreboard import BASE, POLICY
from rubricworks.evaluation.scorers.rubric_reward import BestOfN
from rubricworks.evaluation.scorers.scorer_table import AnswerScorers, CaptionScorers, ImageScorers, Scorers
from rubricworks.llm import Endpoint
from rubricworks.runtime.config import StageConfig
from rubricworks.stages.data.visual_questions import VisualQuestions
from rubricworks.training.config import EngineOptions
from rubricworks.training.generators.config import ImageSampling

BEST_OF_N = "base_best_of_n"
"""Name of the base where the best of its images count."""
PEER = "peer"
"""Name of the model that was trained for comparison."""


class Evaluation(StageConfig):
    """Settings of an evaluation of responses of any kind."""

    scorers: Scorers
    decodings: tuple[Decoding, ...] = Field(default=("greedy",), min_length=1)
    temperature: float = Field(default=1.0, gt=0)
    """Temperature of the sampled decoding."""
    batch_size: int = Field(default=64, ge=1)
    splits: tuple[str, ...] | None = ("held_out",)
    """Splits to score; None scores all samples."""
    opponent: str = BASE
    """Model that comparisons and gains are against."""
    models: dict[str, ModelSource] = Field(default={})
    """Further models: directories, endpoints, or files of responses."""
    prompts: dict[OwnPromptName, str] = Field(default={})
    """Prompt of a scorer → a text file with its fields, in place of our words."""

    @model_validator(mode="after")
    def _prompts_have_their_scorer(self) -> "Evaluation":
        used = {name for scorer in self.scorers for name in scorer.prompt_names}
        if idle := [name for name in self.prompts if name not in used]:
            raise ValueError(f"prompts.{idle[0]}: no scorer sends it; configure the scorer, or leave it out")
        return self

    def trained_names(self) -> tuple[str, str]:
        """Names of the peer and of the policy, the candidate for promotion."""
        return PEER, POLICY

    def versions(self) -> dict[str, str]:
        """A scorer that cannot score on this machine has a version of its own: it scores once it can. So has one with a
        prompt of the user's own.

        Raises:
            UserError: a prompt's file cannot be read, or has other fields.
        """
        prompts = self.own_prompts()
        versions = {}
        for scorer in self.scorers:
            own = [prompts[name].version for name in scorer.prompt_names if name in prompts]
            unavailable = ["not available"] if scorer.unavailable() else []
            versions[scorer.name] = ", ".join([scorer.version, *own, *unavailable])
        return versions

    def own_prompts(self) -> dict[OwnPromptName, OwnPrompt]:
        """Prompts of the user's own.

        Raises:
            UserError: a file cannot be read, or has other fields.
        """
        kind: Kind = getattr(self, "type", "captions")
        return {name: read_own_prompt(name, file, kind) for name, file in self.prompts.items()}


class TextEvaluation(Evaluation):
    """Evaluation of models that write."""

    scorers: CaptionScorers | AnswerScorers
    max_new_tokens: int = Field(default=1024, ge=1)
    engine: EngineOptions = EngineOptions()
    """Engine that writes the responses of model directories: `{kind: vllm}` on GPUs."""
    select_by: str | None = None
    """Figure that chooses the best of the milestones that the trainings kept; by default their ends are scored. Of a
    set of benchmarks it is the macro mean.
    """
    select_by_reported: bool = False
    """Allow `select_by` the set that is reported, as RLR³ does with its 15 benchmarks: the chosen one looks better than
    it is.
    """

    @model_validator(mode="after")
    def _selects_by_another_set(self) -> "TextEvaluation":
        if self.selects_by_reported and not self.select_by_reported:
            raise ValueError(
                f"select_by: {self.select_by} is the set that is reported, and a checkpoint chosen by it looks better "
                "than it is; give a second set of benchmarks, and choose by that one, or set select_by_reported"
            )
        return self

    @property
    def selects_by_reported(self) -> bool:
        return self.select_by in [benchmark.name for benchmark in self.scorers.benchmarks[:1]]

    @model_validator(mode="after")
    def _answers_fit_into_the_engine(self) -> "TextEvaluation":
        room = self.engine.max_model_length
        for benchmark in self.scorers.benchmarks:
            if room is not None and benchmark.longest_answer >= room:
                raise ValueError(
                    f"engine.max_model_length is {room:,}, and {benchmark.set} asks for answers of up to "
                    f"{benchmark.longest_answer:,} tokens; raise it, or give the set max_new_tokens"
                )
        return self


class CaptionEvaluation(TextEvaluation):
    """Evaluation of captioners."""

    type: Literal["captions"] = "captions"
    scorers: CaptionScorers
    questions: VisualQuestions | None = None
    """Visual questions about the held-out pictures for all models; none by default."""


class AnswerEvaluation(TextEvaluation):
    """Evaluation of models that answer questions."""

    type: Literal["answers"] = "answers"
    scorers: AnswerScorers
    policy: str = POLICY
    """Name of the trained model, the candidate for promotion."""
    peer: str = PEER
    """Name of the model that was trained for comparison."""

    def trained_names(self) -> tuple[str, str]:
        return self.peer, self.policy


class ImageEvaluation(Evaluation):
    """Evaluation of image generators."""

    type: Literal["images"] = "images"
    scorers: ImageScorers
    guidance: float = Field(default=1.0, ge=0)
    """Classifier-free guidance; 1 is none."""
    rewriter: Endpoint | None = None
    """Model that writes prompts out before images are generated for them; scorers judge by the original prompts."""
    best_of: BestOfN | None = None
    """Score the base once more, as `base_best_of_n`, by the best of several images (RubricRL, Table 7)."""
    sampling: ImageSampling = ImageSampling()
    """Sampling of flow-matching generators. The default size is that of the training, or else the generator's own."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of all generators' weights. Default: that of the training, or else each generator's own."""

    def versions(self) -> dict[str, str]:
        return super().versions() | ({"prompt_rewriting": REWRITING_VERSION} if self.rewriter else {})


AnyEvaluation = Annotated[CaptionEvaluation | AnswerEvaluation | ImageEvaluation, Field(discriminator="type")]
