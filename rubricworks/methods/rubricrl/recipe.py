"""Recipe of the RubricRL pipeline."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from rubricworks.llm.usage import TOKENS_PER_CRITERION
from rubricworks.methods.rubricrl.stages.prepare_prompts import Config as PromptsConfig
from rubricworks.methods.rubricrl.stages.pretrain_generator import TINY_AR, TINY_FLOW
from rubricworks.methods.rubricrl.stages.pretrain_generator import Config as WarmUpConfig
from rubricworks.methods.rubricrl.stages.write_prompt_rubrics import Config as RubricConfig
from rubricworks.policy.policy import ImagePolicy
from rubricworks.policy.rewards.reward import TrainingSize
from rubricworks.recipe.estimate import policy_calls, scoring_calls
from rubricworks.recipe.recipe import CallEstimate, Recipe
from rubricworks.runtime.config import StageConfig
from rubricworks.stages.evaluation.score_config import ImageEvaluation
from rubricworks.stages.release.promote import Config as PromoteConfig
from rubricworks.stages.release.report import Config as ReportConfig
from rubricworks.training.generators.config import DiffusionNftConfig

WORLD_PROMPTS = 412
"""Prompts to train on that the scene world has, whatever its seed and size."""

_INSTRUCTIONS = 450
"""Tokens of a prompt's fixed text."""
_PROMPT = 60


class RubricrlRecipe(Recipe):
    """RubricRL: rubrics are written from prompts, and an image generator is trained on them."""

    item_noun: ClassVar[str] = "prompt"

    pipeline: Literal["rubricrl"]
    data: PromptsConfig
    rubric: RubricConfig
    warm_up: WarmUpConfig
    policy: ImagePolicy
    evaluation: ImageEvaluation
    promotion: PromoteConfig = PromoteConfig()
    report: ReportConfig = ReportConfig()

    def stage_configs(self) -> dict[str, StageConfig]:
        """Stage → its configuration, in the order of the pipeline."""
        return {
            "prepare_prompts": self.data,
            "write_prompt_rubrics": self.rubric,
            "pretrain_generator": self.warm_up,
            "train_generator": self.policy,
            "score": self._evaluation_as_trained(),
            "promote": self.promotion,
            "rubricrl_report": self.report,
        }

    @property
    def base_model(self) -> str | None:
        """Generator that the policy starts from; None for one that the run pretrains."""
        generator = self.warm_up.generator
        return None if generator in (TINY_AR, TINY_FLOW) else generator

    def _evaluation_as_trained(self) -> ImageEvaluation:
        """The evaluation in the precision and size of a flow's training, where it names no other: all models alike."""
        evaluation, algorithm = self.evaluation, self.policy.algorithm
        if not isinstance(algorithm, DiffusionNftConfig):
            return evaluation
        sampling = algorithm.rollouts.sampling
        size = {"side": evaluation.sampling.side or sampling.side}
        precision = algorithm.optimizer.precision if evaluation.precision == "auto" else evaluation.precision
        drawn = {"sampling": evaluation.sampling.model_copy(update=size), "precision": precision}
        return evaluation.model_copy(update=drawn)

    def items_in_world(self) -> int:
        return WORLD_PROMPTS if self.world and self.world.pictures else 0

    def estimate_calls(self, items: int) -> Iterator[CallEstimate]:
        held_out = self.data.held_out if self.data.held_out_source else min(self.data.held_out, items)
        train = max(items - (0 if self.data.held_out_source else held_out), 1)
        if self.data.max_train is not None:
            train = min(train, self.data.max_train)
        images = held_out * self.data.images_per_prompt
        rubric = self.rubric
        written = train + held_out
        per_query = rubric.per_query * TOKENS_PER_CRITERION
        yield CallEstimate(
            "write_prompt_rubrics",
            "rubric",
            rubric.writer,
            written * rubric.queries,
            _INSTRUCTIONS + _PROMPT,
            per_query,
        )
        pool = rubric.queries * per_query
        yield CallEstimate("write_prompt_rubrics", "selection", rubric.writer, written, _INSTRUCTIONS + pool, 60)
        size = TrainingSize(samples=train, held_out=held_out, criteria=rubric.select)
        yield from policy_calls("train_generator", self.policy, size)
        yield from scoring_calls(self.evaluation, images, prompts=held_out)


RECIPE = RubricrlRecipe
