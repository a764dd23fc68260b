"""Recipe of the RubricRL pipeline."""

from typing import ClassVar, Literal

from rubricworks.methods.rubricrl.stages.prepare_prompts import Config as PromptsConfig
from rubricworks.methods.rubricrl.stages.pretrain_generator import Config as WarmUpConfig
from rubricworks.methods.rubricrl.stages.write_prompt_rubrics import Config as RubricConfig
from rubricworks.policy.policy import ImagePolicy
from rubricworks.recipe.recipe import Recipe
from rubricworks.runtime.config import StageConfig
from rubricworks.stages.evaluation.score_config import ImageEvaluation
from rubricworks.stages.release.promote import Config as PromoteConfig
from rubricworks.stages.release.report import Config as ReportConfig

WORLD_PROMPTS = 412
"""Prompts to train on that the scene world has, whatever its seed and size."""


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
            "score": self.evaluation,
            "promote": self.promotion,
            "rubricrl_report": self.report,
        }

    def items_in_world(self) -> int:
        return WORLD_PROMPTS if self.world and self.world.pictures else 0


RECIPE = RubricrlRecipe
