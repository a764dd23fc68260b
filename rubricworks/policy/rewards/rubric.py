"""Rubric reward: weighted credits of the criteria of a caption's sample, by judges (RubiCap, section 3.3)."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.adapters import trl
from rubricworks.grading import CallPer
from rubricworks.grading.prompts import JUDGE_PROMPT_VERSION
from rubricworks.llm.usage import PlannedCalls, grading_calls
from rubricworks.policy.judges import (
    CascadeJudge,
    Judge,
    LogprobJudge,
    OpenJudge,
    describe_judge,
    graders,
    grading_plan,
)
from rubricworks.policy.rewards.canary import Canary, CanaryConfig
from rubricworks.policy.rewards.measured_rates import (
    AGREEMENT_FIELD,
    AGREEMENT_FILE,
    MeasuredRates,
    read_measurement,
)
from rubricworks.policy.rewards.pitfall_refresh import PitfallOptions
from rubricworks.policy.rewards.reward import PreparedReward, Reward, Training, TrainingSize
from rubricworks.policy.rewards.rubric_refresh import RubricRefresh
from rubricworks.policy.rubric_texts import refill_criterion, rubric_texts
from rubricworks.policy.step_tables import scorecard_table
from rubricworks.rewards import NoiseRates, noise_corrected_reward, signed_reward
from rubricworks.rubrics import Rubric
from rubricworks.runtime.job import Job
from rubricworks.runtime.preflight_checks import Check, run_check
from rubricworks.storage import write_atomic
from rubricworks.synthesis import PITFALL_PROMPT_VERSION
from rubricworks.training.config import TextRollouts
from rubricworks.training.processes import is_main

PITFALL_WEIGHTS = frozenset({-1.0, -2.0, -3.0})
Rates = NoiseRates | dict[float, NoiseRates]


class RefreshOptions(BaseModel):
    """Rubrics written anew during training, from the current policy's captions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    every: int = Field(ge=1)
    """Steps between two refreshes."""
    pitfalls: PitfallOptions | None = None
    """Add pitfalls from the policy's worst captions instead of rewriting the rubrics; `{}` for its defaults."""


class RubricReward(Reward):
    """Credits of a rubric's criteria for a caption, weighted."""

    type: Literal["rubric"]
    judge: Judge
    """Grades the rollouts; sees the criteria and the caption, never the image."""
    call_per: CallPer = "response"
    """One judge call per response, with all its criteria, or one per criterion (RubiCap)."""
    noise_correction: NoiseRates | MeasuredRates | dict[float, NoiseRates] | None = None
    """Corrects rewards for the judge's error rates, as `rubricworks agreement` reports them: one pair, a pair per
    weight, or `agreement:` with the file of `agreement --json`. Off by default. One pair for all criteria leaves
    normalised advantages unchanged.
    """
    canary: CanaryConfig | None = None
    """Regrading of fixed responses during training, which detects that the judge has changed; none by default."""
    refresh: RefreshOptions | None = None
    """Rubrics written anew during training; none by default."""

    @model_validator(mode="after")
    def _rates_fit_the_judge(self) -> "RubricReward":
        rates = self.noise_correction
        if rates is not None and isinstance(self.judge, LogprobJudge):
            raise ValueError(
                "noise_correction corrects zeros and ones, and a judge of type logprob gives what lies between; leave "
                "one out"
            )
        if isinstance(rates, MeasuredRates) and isinstance(self.judge, CascadeJudge):
            raise ValueError(
                "noise_correction.agreement holds the errors of one judge, and a judge of type cascade asks another; "
                "write the rates of both together, or leave one out"
            )
        pitfalls = self.refresh is not None and self.refresh.pitfalls is not None
        if pitfalls and isinstance(rates, dict) and (missing := PITFALL_WEIGHTS - rates.keys()):
            raise ValueError(
                f"noise_correction has no rates for {', '.join(f'{w:g}' for w in sorted(missing))}, weights of "
                "refresh.pitfalls; add them, or give one pair of rates"
            )
        return self

    def versions(self) -> dict[str, str]:
        versions = {}
        if isinstance(self.noise_correction, MeasuredRates):
            versions["noise_rates"] = self.noise_correction.digest()
        if self.refresh and self.refresh.pitfalls:
            versions["pitfalls"] = PITFALL_PROMPT_VERSION
        return versions

    def source_files(self) -> dict[str, str]:
        rates = self.noise_correction
        return {AGREEMENT_FIELD: rates.agreement} if isinstance(rates, MeasuredRates) else {}

    def checks(self) -> Iterator[Check]:
        if isinstance(self.noise_correction, MeasuredRates):
            yield run_check("noise_correction", partial(self._read_rates, self.noise_correction))

    def _read_rates(self, measured: MeasuredRates) -> str:
        read_measurement(measured, graders(self.judge), JUDGE_PROMPT_VERSION)
        return f"{measured.agreement} has rates of this judge"

    def build(self, training: Training) -> PreparedReward:
        job, rubrics = training.job, rubric_texts(training.job)
        judge = OpenJudge(self.judge, job, call_per=self.call_per)
        rates = self._noise_rates(judge, job, rubrics)
        scorecards = scorecard_table()
        reward = trl.RubricReward(
            judge.grader(training.letters.add),
            reduce=partial(noise_corrected_reward, rates=rates) if rates else signed_reward,
            criterion=refill_criterion(training.refill, rubrics),
            sink=scorecards.add,
        )
        refresh = self._open_refresh(judge, training, rubrics)
        graded = refresh.reward(reward) if refresh else reward
        return PreparedReward(
            functions=[graded],
            gradings=scorecards,
            values=rubrics,
            judges=judge.clients,
            start=graded.start,
            refresh=refresh,
            after_step=self._open_canary(judge, job, rubrics),
        )

    def _noise_rates(self, judge: OpenJudge, job: Job, rubrics: Mapping[str, str]) -> Rates | None:
        """Error rates to correct rewards for. Rates from a file are stored with the policy and apply only to the judge
        they were measured on.

        Raises:
            UserError: the file has no rates of this judge, or of these weights.
        """
        measured = self.noise_correction
        if not isinstance(measured, MeasuredRates):
            return measured
        weights = {
            criterion.weight for text in rubrics.values() for criterion in Rubric.model_validate_json(text).criteria
        }
        if self.refresh and self.refresh.pitfalls:
            weights |= PITFALL_WEIGHTS
        measurement = read_measurement(measured, graders(self.judge), JUDGE_PROMPT_VERSION, weights=weights)
        for client, identity in zip(judge.clients, measurement.identities, strict=True):
            if identity:
                client.require_identity(identity, f"{measured.agreement} measured it")
        write_atomic(job.out / AGREEMENT_FILE, measured.content)
        return measurement.rates

    def _open_refresh(self, judge: OpenJudge, training: Training, rubrics: dict[str, str]) -> RubricRefresh | None:
        if self.refresh is None:
            return None
        assert training.rubric_writing is not None, "the recipe gives the settings of the rubrics' writer"
        assert isinstance(training.rollouts, TextRollouts)
        # Failures at a refresh are no dead letters: a training that resumes after it would not repeat them.
        return RubricRefresh(
            self.refresh.every,
            training.rubric_writing,
            training.job,
            rubrics,
            pitfalls=self.refresh.pitfalls,
            grader=judge.grader() if self.refresh.pitfalls else None,
            temperature=training.rollouts.temperature,
        )

    def _open_canary(self, judge: OpenJudge, job: Job, rubrics: Mapping[str, str]) -> Callable[[int], None] | None:
        if self.canary is None or not is_main():
            return None
        # A grading's draws have seeds of their own: those of the one before would be answered by the run's cache.
        return Canary(
            self.canary, job, lambda number: judge.grader(seed=judge.draws * number, binary=True), rubrics
        ).after_step

    def estimate(self, size: TrainingSize) -> Iterator[PlannedCalls]:
        def gradings(responses: int) -> list[PlannedCalls]:
            return grading_plan(self.judge, *grading_calls(responses, self.call_per))

        yield from gradings(size.rollouts)
        if self.canary:
            yield from gradings((2 + size.steps // self.canary.every) * self.canary.samples)

    def describe(self) -> str:
        return (
            f"The reward is the weight of the rubric's criteria that a caption meets; {describe_judge(self.judge)} "
            f"grades them, one call per {self.call_per}."
        )
