"""The recipe of a retraining, which is little: how the model is made, the registry tells with the champion."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from rubricworks.methods.retrain.champion import champion_is_there
from rubricworks.methods.retrain.stages.challenge import Config as ChallengeConfig
from rubricworks.methods.retrain.stages.fetch_champion import Config as ChampionConfig
from rubricworks.methods.retrain.stages.find_new_samples import Config as NewSamplesConfig
from rubricworks.recipe.recipe import Recipe
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.preflight_checks import Check, run_check
from rubricworks.runtime.stage_table import RETRAINING_STAGES


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
        return [look, fetch, *RETRAINING_STAGES, challenge]

    def own_checks(self, runs: Path) -> Iterator[Check]:
        yield run_check("champion", lambda: champion_is_there(self.new_samples.model_name, self.tracking, runs))

    def plan_in_words(self) -> str:
        """What the champion's recipe costs is found with the champion."""
        wanted, settled = self.new_samples, self.challenge.approval
        decides = "a person (rubricworks promote)" if settled == "person" else "the gate"
        return (
            f"{self.name}: retrain {wanted.model_name} if its source holds {wanted.needed} samples that the champion "
            f"does not know;\n{decides} makes a challenger champion that passes the gate against it\n"
            "stages, calls and dollars are those of the champion's recipe, which the model registry keeps"
        )

    def success_lines(self, run: Path) -> list[str]:
        return [str(json.loads((run / "summary.json").read_bytes())["outcome"])]


RECIPE = RetrainRecipe
