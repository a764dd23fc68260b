"""Recipe of the retraining pipeline; the champion's own recipe, kept in the model registry, configures the rest."""

import json
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Literal

from rubricworks.errors import UserError
from rubricworks.methods.retrain.champion import apply_changes, check_champion, parse_config, require_admission
from rubricworks.methods.retrain.stages.challenge import Config as ChallengeConfig
from rubricworks.methods.retrain.stages.fetch_champion import Config as ChampionConfig
from rubricworks.methods.retrain.stages.find_new_samples import Config as NewSamplesConfig
from rubricworks.recipe.cluster import ClusterConfig
from rubricworks.recipe.recipe import Recipe
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.packages import optional_packages, require_installed
from rubricworks.runtime.preflight_checks import Check, run_check
from rubricworks.runtime.stage_table import RETRAINING_STAGES, STAGES


class RetrainRecipe(Recipe):
    """Retraining: find samples that are new to the champion, train a challenger by its recipe, and gate it."""

    pipeline: Literal["retrain"]
    new_samples: NewSamplesConfig = NewSamplesConfig()
    champion: ChampionConfig = ChampionConfig()
    challenge: ChallengeConfig = ChallengeConfig()

    def stage_configs(self) -> dict[str, StageConfig]:
        """Stage → its configuration; those of the champion's stages are read from the registry at run time."""
        return {
            "find_new_samples": self.new_samples,
            "fetch_champion": self.champion,
            "challenge": self.challenge,
        }

    def stage_names(self) -> list[str]:
        """Stages of the run, including those of every pipeline that a champion may come from."""
        find, fetch, challenge = self.stage_configs()
        return [find, fetch, *RETRAINING_STAGES, challenge]

    def served_callers(self) -> dict[str, list[str]]:
        """Placed model → the stages that may call it: which do is found with the champion."""
        stages = [stage for stage in RETRAINING_STAGES if STAGES[stage].calls_models]
        return dict.fromkeys(self.cluster.serve, stages) if self.cluster else {}

    def _check_served_placement(self, cluster: ClusterConfig) -> None:
        """The champion's recipe defines its models, which are not known yet."""

    def sized_stages(self) -> tuple[dict[str, StageConfig], str | None]:
        """Configurations of this recipe's stages and of the champion's, with the model that the champion began from."""
        if isinstance(stages := self._champion_stages, UserError):
            raise stages
        return self.stage_configs() | stages, getattr(stages.get("warm_up"), "student", None)

    @cached_property
    def _champion_stages(self) -> dict[str, StageConfig] | UserError:
        """Stage of the champion's recipe → its configuration, or the reason why it is not known."""
        search = self.new_samples
        of_pods = self.cluster.env.get("MLFLOW_TRACKING_URI", "") if self.cluster else ""
        uri = self.tracking.uri or of_pods or os.environ.get("MLFLOW_TRACKING_URI", "")
        if not uri or "$" in uri:
            return UserError("no registry is named (tracking.uri) that could tell the champion's size")
        try:
            tracking = self.tracking.model_copy(update={"uri": uri})
            _, lineage = check_champion(search.model_name, tracking, Path("runs"))
            recipe = apply_changes(lineage.recipe, search.changes)
            return {stage: parse_config(stage, recipe.stages) for stage in recipe.stages}
        except UserError as error:
            return error

    def method_checks(self, runs: Path) -> Iterator[Check]:
        yield run_check("champion", lambda: self._check_champion(runs))

    def _check_champion(self, runs: Path) -> str:
        search = self.new_samples
        champion, lineage = check_champion(search.model_name, self.tracking, runs)
        require_admission(lineage, search.changes, champion, search.admit)
        require_installed(optional_packages(lineage.recipe.stages))
        return f"{search.model_name} version {champion.version}"

    def plan_in_words(self) -> str:
        """Plan without costs, which depend on the champion's recipe."""
        search = self.new_samples
        approver = "a person (rubricworks promote)" if self.challenge.approval == "person" else "the gate"
        return (
            f"{self.name}: retrain {search.model_name} if its source holds {search.needed} samples that the champion "
            f"does not know;\n{approver} makes a challenger champion that passes the gate against it\n"
            "stages, calls and dollars are those of the champion's recipe, which the model registry keeps"
        )

    def success_lines(self, run: Path) -> list[str]:
        return [str(json.loads((run / "summary.json").read_bytes())["outcome"])]


RECIPE = RetrainRecipe
