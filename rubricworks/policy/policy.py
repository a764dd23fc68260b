"""The section `policy:` of a recipe: a reward and an algorithm, of captions, of answers, or of images."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Self, get_args

from pydantic import ConfigDict, Field, ValidationError, model_validator

from rubricworks.llm import Endpoint
from rubricworks.llm.served_names import with_definitions
from rubricworks.llm.usage import PlannedCalls
from rubricworks.policy.algorithms.algorithm import Algorithm, PolicyStage
from rubricworks.policy.algorithms.diffusion_nft import DiffusionNft
from rubricworks.policy.algorithms.grpo import AnswerGrpo, CodeGrpo, Grpo
from rubricworks.policy.algorithms.image_sft import BestOfN, PictureSft
from rubricworks.policy.algorithms.rewrite_sft import RewriteSft
from rubricworks.policy.algorithms.sft import Sft
from rubricworks.policy.rewards.answer import AnswerReward
from rubricworks.policy.rewards.caption_scores import CaptionScoresReward
from rubricworks.policy.rewards.checklist import ChecklistReward
from rubricworks.policy.rewards.endpoints import EndpointsReward
from rubricworks.policy.rewards.exam import ExamReward
from rubricworks.policy.rewards.function import FunctionReward
from rubricworks.policy.rewards.image_rubric import ImageRubricReward
from rubricworks.policy.rewards.likert import LikertReward
from rubricworks.policy.rewards.reward import Reward, TrainingSize
from rubricworks.policy.rewards.rouge_l import RougeLReward
from rubricworks.policy.rewards.rubric import RubricReward
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.stages.synthesis.synthesize_rubrics import Config as RubricWriting

CaptionReward = Annotated[
    RubricReward | CaptionScoresReward | ExamReward | LikertReward | RougeLReward | FunctionReward,
    Field(discriminator="type"),
]
CaptionAlgorithm = Annotated[Grpo | Sft | RewriteSft, Field(discriminator="type")]
AnyAnswerReward = Annotated[ChecklistReward | AnswerReward | FunctionReward, Field(discriminator="type")]
ImageReward = Annotated[ImageRubricReward | EndpointsReward, Field(discriminator="type")]
ImageAlgorithm = Annotated[CodeGrpo | DiffusionNft | PictureSft | BestOfN, Field(discriminator="type")]


def _add_pairs(schema: dict[str, Any], policy: "type[Policy]") -> None:
    """Add to a policy's JSON schema the rewards that each algorithm trains on."""
    schema["allOf"] = [
        {
            "if": {"properties": {"algorithm": {"properties": {"type": {"enum": get_args(kind)}}}}},
            "then": _rewards_schema(algorithm.rewards),
        }
        for algorithm in get_args(policy.model_fields["algorithm"].annotation)
        if (kind := algorithm.model_fields["type"].annotation)
    ]


def _rewards_schema(rewards: Sequence[str]) -> dict[str, Any]:
    if not rewards:
        return {"properties": {"reward": {"type": "null"}}}
    kind = {"type": "object"} if "any" in rewards else {"properties": {"type": {"enum": rewards}}, "type": "object"}
    return {"properties": {"reward": kind}, "required": ["reward"]}


class Policy(StageConfig):
    """A reward, and the algorithm that trains on it."""

    model_config = ConfigDict(json_schema_extra=_add_pairs)

    reward: Reward | None = None
    algorithm: Algorithm

    @model_validator(mode="after")
    def _algorithm_trains_on_the_reward(self) -> Self:
        kinds, name = self.algorithm.rewards, getattr(self.algorithm, "type", "")
        if self.reward is None:
            if kinds:
                raise ValueError(f"reward is missing: algorithm {name} trains on one; add reward: {{type: …}}")
            return self
        kind = getattr(self.reward, "type", "")
        if not kinds:
            raise ValueError(f"reward is {kind}, and algorithm {name} trains on texts or pictures; set reward to null")
        if "any" not in kinds and kind not in kinds:
            raise ValueError(f"reward is {kind}, and algorithm {name} takes {' or '.join(kinds)}; change one")
        return self

    def versions(self) -> dict[str, str]:
        """Versions of a user's reward, or of prompts: a training is not continued with an edited one."""
        return (self.reward.versions() if self.reward else {}) | self.algorithm.versions()

    def train(self, job: Job, rubric_writing: RubricWriting | None = None) -> None:
        """Train the job's input model, and write the result into its folder.

        Args:
            rubric_writing: settings of the stage that wrote the rubrics, for a reward that has them rewritten.
        """
        self.algorithm.train(PolicyStage(self, job, self.reward, rubric_writing))

    def estimate(self, size: TrainingSize, captioners: Sequence[Endpoint] = ()) -> Iterator[PlannedCalls]:
        """Plan the calls of a training.

        Args:
            captioners: models whose captions the run has anyway.
        """
        return self.algorithm.estimate(self.reward, size, captioners)

    def describe(self) -> str:
        """Describe the training in sentences, for reports."""
        return " ".join([*([self.reward.describe()] if self.reward else []), self.algorithm.describe()])


class CaptionPolicy(Policy):
    """Policy that captions images."""

    reward: CaptionReward | None = None
    """Reward of a caption; an SFT needs none."""
    algorithm: CaptionAlgorithm
    """Training algorithm."""


class AnswerPolicy(Policy):
    """Policy that answers questions."""

    reward: AnyAnswerReward
    """Reward of an answer."""
    algorithm: AnswerGrpo
    """Training algorithm."""


class ImagePolicy(Policy):
    """Policy that generates images."""

    reward: ImageReward | None = None
    """Reward of an image; an SFT needs none."""
    algorithm: ImageAlgorithm
    """Training algorithm."""


_KINDS: dict[str, type[Policy]] = {"rlr3": AnswerPolicy, "rubricrl": ImagePolicy}
"""Pipeline → kind of its policy, for pipelines that do not caption."""


def recorded_policy(recipe: Mapping[str, object]) -> Policy | None:
    """Return the policy of a run's stored recipe; None if it has no readable policy."""
    kind = _KINDS.get(str(recipe.get("pipeline")), CaptionPolicy)
    try:
        return kind.model_validate(with_definitions(dict(recipe)).get("policy"))
    except ValidationError:
        return None
