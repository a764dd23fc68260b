"""The recipe of a retraining, which is little: how the model is made, the registry tells with the champion."""

from typing import ClassVar, Literal

from rubricworks.recipe.common import Recipe
from rubricworks.stages.challenge import Config as ChallengeConfig
from rubricworks.stages.config import StageConfig
from rubricworks.stages.fetch_champion import Config as ChampionConfig
from rubricworks.stages.find_new_samples import Config as NewSamplesConfig

OF_CHAMPIONS = (
    "prepare", "prepare_questions", "open_questions", "warm_up", "caption_committee", "caption_student",
    "synthesize_rubrics", "recap", "write_exams", "peer_rubrics", "write_checklists", "offline_filter", "train_policy",
    "train_balcaprl", "train_rlr3", "evaluate", "evaluate_captions", "evaluate_answers",
)  # fmt: skip
"""Stages of the pipelines that a champion may come from, as far as they make a policy and measure it."""


class RetrainRecipe(Recipe):
    """Retraining: look for what the champion does not know, make a challenger by its recipe, hold the gate between."""

    seeded: ClassVar[tuple[str, ...]] = ("new_samples", "champion", "challenge")

    pipeline: Literal["retrain"]
    new_samples: NewSamplesConfig = NewSamplesConfig()
    champion: ChampionConfig = ChampionConfig()
    challenge: ChallengeConfig = ChallengeConfig()

    def stage_configs(self) -> dict[str, StageConfig]:
        """Stage → its own configuration; those of the champion's stages are found when it runs."""
        return {
            "find_new_samples": self.new_samples,
            "fetch_champion": self.champion,
            "challenge": self.challenge,
        }

    def stage_names(self) -> list[str]:
        """With those of every pipeline that a champion may come from."""
        look, fetch, challenge = self.stage_configs()
        return [look, fetch, *OF_CHAMPIONS, challenge]
