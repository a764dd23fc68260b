"""Recipe of the RubiCap pipeline."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, model_validator

from rubricworks.adapters.functions import load_reward
from rubricworks.grading.prompts import JUDGE_PROMPT_VERSION
from rubricworks.methods.rubicap.stages.pitfall_refresh import PitfallOptions
from rubricworks.methods.rubicap.stages.rubric_refresh import Refresh
from rubricworks.methods.rubicap.stages.train_policy import PITFALL_WEIGHTS, PolicySection
from rubricworks.methods.rubicap.stages.train_policy import Config as TrainConfig
from rubricworks.recipe.recipe import Recipe
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.preflight_checks import Check, run_check
from rubricworks.stages.data.prepare import Config as PrepareConfig
from rubricworks.stages.evaluation.score import Config as ScoreConfig
from rubricworks.stages.release.promote import Config as PromoteConfig
from rubricworks.stages.release.report import Config as ReportConfig
from rubricworks.stages.synthesis.caption_committee import Config as CommitteeConfig
from rubricworks.stages.synthesis.caption_student import Config as StudentConfig
from rubricworks.stages.synthesis.rubric_gate import AuditGate
from rubricworks.stages.synthesis.synthesize_rubrics import Config as SynthesisConfig
from rubricworks.stages.synthesis.synthesize_rubrics import check_committee
from rubricworks.stages.training.measured_rates import AGREEMENT_FIELD, MeasuredRates, read_measurement
from rubricworks.stages.training.warm_up import Config as WarmUpConfig


class RubricSection(SynthesisConfig):
    refresh_every: int = Field(default=0, ge=0)
    """Steps between two rewritings of the rubrics from the current policy's captions; 0 turns them off."""
    pitfalls: PitfallOptions | None = Field(default=None, exclude_if=lambda pitfalls: pitfalls is None)
    """With it, a refresh adds pitfalls from the policy's worst captions instead of rewriting the rubrics; `{}` for its
    defaults."""


class RubicapRecipe(Recipe):
    """RubiCap: a committee captions images, its consensus becomes rubrics, and a captioner is trained on them."""

    pipeline: Literal["rubicap"] = "rubicap"
    data: PrepareConfig
    warm_up: WarmUpConfig
    committee: CommitteeConfig
    student: StudentConfig = StudentConfig()
    rubric: RubricSection
    policy: PolicySection
    evaluation: ScoreConfig
    promotion: PromoteConfig = PromoteConfig()
    report: ReportConfig = ReportConfig()

    @model_validator(mode="after")
    def _sizes_fit(self) -> "RubicapRecipe":
        if self.world and self.world.scenes <= self.data.held_out:
            raise ValueError(
                f"world.scenes is {self.world.scenes}, data.held_out {self.data.held_out}: nothing is left to train on"
            )
        check_committee(self.committee, self.rubric)
        if self.policy.peer and self.rubric.refresh_every:
            raise ValueError(
                f"rubric.refresh_every is {self.rubric.refresh_every}, and policy.peer is {self.policy.peer.kind}, "
                "which is not trained on rubrics that are rewritten; set refresh_every to 0"
            )
        if self.rubric.pitfalls:
            self._check_pitfalls()
        return self

    def _check_pitfalls(self) -> None:
        """Raise ValueError where nothing would write pitfalls, or nobody could test them."""
        if not self.rubric.refresh_every:
            raise ValueError("rubric.pitfalls are written at each refresh; set rubric.refresh_every, which is 0")
        if self.policy.reward:
            raise ValueError(
                f"rubric.pitfalls are tested by the judges, and policy.reward.function {self.policy.reward.function} "
                "asks none; leave one out"
            )
        rates = self.policy.noise_correction
        if isinstance(rates, dict) and (missing := PITFALL_WEIGHTS - rates.keys()):
            raise ValueError(
                f"policy.noise_correction has no rates for {', '.join(f'{w:g}' for w in sorted(missing))}, weights of "
                "rubric.pitfalls; add them, or give one pair of rates"
            )

    def stage_configs(self) -> dict[str, StageConfig]:
        """Stage → its configuration, in the order of the pipeline."""
        rubric = SynthesisConfig(**_fields(self.rubric, without={"refresh_every", "pitfalls", "audit"}))
        refresh = None
        if self.rubric.refresh_every:
            refresh = Refresh(every=self.rubric.refresh_every, rubric=rubric, pitfalls=self.rubric.pitfalls)
        return {
            "prepare": self.data,
            "warm_up": self.warm_up,
            "caption_committee": self.committee,
            "caption_student": self.student,
            "synthesize_rubrics": rubric.model_copy(update={"audit": self.rubric_gate()}),
            "train_policy": TrainConfig(**_fields(self.policy), refresh=refresh),
            "score": self.evaluation,
            "promote": self.promotion,
            "report": self.report,
        }

    def rubric_gate(self) -> AuditGate | None:
        """Return the gate on the written rubrics, by the policy's judges unless it names its own."""
        gate, policy = self.rubric.audit, self.policy
        if gate is None or gate.judges:
            return gate
        judges = (policy.judge, *policy.more_judges)
        return gate.model_copy(update={"judges": judges, "combine": policy.combine, "call_per": policy.call_per})

    @property
    def source_files(self) -> dict[str, str]:
        rates = self.policy.noise_correction
        corrected = {AGREEMENT_FIELD: rates.agreement} if isinstance(rates, MeasuredRates) else {}
        return super().source_files | corrected

    def method_checks(self, runs: Path) -> Iterator[Check]:
        if own := self.policy.reward:
            yield run_check("reward", partial(_loads, own.function))
        if isinstance(rates := self.policy.noise_correction, MeasuredRates):
            yield run_check("noise_correction", partial(_rates_of, rates, self.policy))


def _loads(function: str) -> str:
    load_reward(function)
    return f"{function} can be called"


def _rates_of(measured: MeasuredRates, policy: PolicySection) -> str:
    read_measurement(measured, (policy.judge, *policy.more_judges), JUDGE_PROMPT_VERSION)
    return f"{measured.agreement} has rates of this judge"


def _fields(section: BaseModel, *, without: set[str] = frozenset()) -> dict[str, Any]:  # type: ignore[assignment]
    return {name: getattr(section, name) for name in type(section).model_fields if name not in without}


RECIPE = RubicapRecipe
