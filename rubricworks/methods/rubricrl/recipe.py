"""Recipe of the RubricRL pipeline."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from rubricworks.llm import Endpoint
from rubricworks.methods.rubricrl.stages.prepare_prompts import Config as PromptsConfig
from rubricworks.methods.rubricrl.stages.pretrain_generator import Config as WarmUpConfig
from rubricworks.methods.rubricrl.stages.rubricrl_report import Config as ReportConfig
from rubricworks.methods.rubricrl.stages.train_generator import Config as TrainConfig
from rubricworks.methods.rubricrl.stages.write_prompt_rubrics import Config as RubricConfig
from rubricworks.recipe.recipe import Recipe
from rubricworks.runtime.config import StageConfig
from rubricworks.stages.evaluation.score import Config as ScoreConfig
from rubricworks.stages.release.promote import Config as PromoteConfig

WORLD_PROMPTS = 412
"""Prompts to train on that the scene world has, whatever its seed and size."""


class RubricrlRecipe(Recipe):
    """RubricRL: rubrics are written from prompts, and an image generator is trained on them."""

    item_noun: ClassVar[str] = "prompt"

    pipeline: Literal["rubricrl"]
    data: PromptsConfig
    rubric: RubricConfig
    warm_up: WarmUpConfig
    policy: TrainConfig
    evaluation: ScoreConfig
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

    def image_endpoints(self) -> Iterator[Endpoint]:
        """Endpoints whose models are shown images: the judge of responses by rubric too, since they are images here."""
        yield from super().image_endpoints()
        if self.evaluation.scorers.rubric:
            yield self.evaluation.scorers.rubric.judge

    def items_in_world(self) -> int:
        return WORLD_PROMPTS if self.world and self.world.pictures else 0

    def success_lines(self, run: Path) -> list[str]:
        from rubricworks.methods.rubricrl.report.summary import success_lines

        return success_lines(run)


RECIPE = RubricrlRecipe
