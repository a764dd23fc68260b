"""Recipe of the RubiCap pipeline."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from pydantic import model_validator

from rubricworks.llm.usage import grading_calls
from rubricworks.policy.algorithms.grpo import Grpo
from rubricworks.policy.judges import combination, graders, grading_plan
from rubricworks.policy.policy import CaptionPolicy
from rubricworks.policy.rewards.pitfall_refresh import SHOWN
from rubricworks.policy.rewards.reward import TrainingSize
from rubricworks.policy.rewards.rubric import RubricReward
from rubricworks.recipe.estimate import audit_calls, policy_calls, rubric_calls, scoring_calls
from rubricworks.recipe.recipe import CallEstimate, Recipe
from rubricworks.runtime.config import StageConfig
from rubricworks.stages.data.prepare import Config as PrepareConfig
from rubricworks.stages.evaluation.score_config import CaptionEvaluation
from rubricworks.stages.release.promote import Config as PromoteConfig
from rubricworks.stages.release.report import Config as ReportConfig
from rubricworks.stages.synthesis.caption_committee import Config as CommitteeConfig
from rubricworks.stages.synthesis.caption_student import Config as StudentConfig
from rubricworks.stages.synthesis.rubric_gate import AuditGate
from rubricworks.stages.synthesis.synthesize_rubrics import Config as SynthesisConfig
from rubricworks.stages.synthesis.synthesize_rubrics import check_committee
from rubricworks.stages.training.train_policy import CaptionConfig
from rubricworks.stages.training.warm_up import Config as WarmUpConfig


class RubicapRecipe(Recipe):
    """RubiCap: a committee captions images, its consensus becomes rubrics, and a captioner is trained on them."""

    pipeline: Literal["rubicap"] = "rubicap"
    data: PrepareConfig
    warm_up: WarmUpConfig
    committee: CommitteeConfig
    student: StudentConfig = StudentConfig()
    rubric: SynthesisConfig
    policy: CaptionPolicy
    evaluation: CaptionEvaluation
    promotion: PromoteConfig = PromoteConfig()
    report: ReportConfig = ReportConfig()

    @model_validator(mode="after")
    def _sizes_fit(self) -> "RubicapRecipe":
        if self.world and self.world.scenes <= self.data.held_out:
            raise ValueError(
                f"world.scenes is {self.world.scenes}, data.held_out {self.data.held_out}: nothing is left to train on"
            )
        check_committee(self.committee, self.rubric)
        return self

    def stage_configs(self) -> dict[str, StageConfig]:
        """Stage → its configuration, in the order of the pipeline."""
        reward = self.policy.reward
        refreshed = isinstance(reward, RubricReward) and reward.refresh is not None
        policy = CaptionConfig(
            seed=self.policy.seed,
            reward=reward,
            algorithm=self.policy.algorithm,
            rubric_writing=self.rubric.model_copy(update={"audit": None}) if refreshed else None,
        )
        return {
            "prepare": self.data,
            "warm_up": self.warm_up,
            "caption_committee": self.committee,
            "caption_student": self.student,
            "synthesize_rubrics": self.rubric.model_copy(update={"audit": self.rubric_gate()}),
            "train_policy": policy,
            "score": self.evaluation,
            "promote": self.promotion,
            "report": self.report,
        }

    def rubric_gate(self) -> AuditGate | None:
        """Return the gate on the written rubrics, by the policy's judges unless it names its own."""
        gate, reward = self.rubric.audit, self.policy.reward
        if gate is None or gate.judges or not isinstance(reward, RubricReward):
            return gate
        judge, call_per = reward.judge, reward.call_per
        settings = {"judges": graders(judge), "combine": combination(judge), "call_per": call_per}
        return gate.model_copy(update=settings)

    def estimate_calls(self, items: int) -> Iterator[CallEstimate]:
        held_out = min(self.data.held_out, items)
        train = max(items - held_out - self.data.warm_up, 1)
        if self.data.max_train is not None:
            train = min(train, self.data.max_train)
        synthesis = rubric_calls(self.committee, self.student, self.rubric, train + held_out)
        yield from synthesis
        if gate := self.rubric_gate():
            yield from audit_calls("synthesize_rubrics", gate, train)
        size = TrainingSize(samples=train, held_out=held_out)
        yield from policy_calls("train_policy", self.policy, size, self.committee.teachers)
        yield from self._refresh_calls(train, synthesis[-1])
        yield from scoring_calls(self.evaluation, held_out, trained=self.trained_models(items))

    def _refresh_calls(self, train: int, writing: CallEstimate) -> Iterator[CallEstimate]:
        """Calls that rewrite the rubrics during training, or add pitfalls to them.

        Args:
            writing: calls that write them before.
        """
        reward, algorithm = self.policy.reward, self.policy.algorithm
        if not isinstance(reward, RubricReward) or not reward.refresh or not isinstance(algorithm, Grpo):
            return
        refreshes = max(algorithm.steps_on(train) - 1, 0) // reward.refresh.every
        yield replace(writing, stage="train_policy", count=refreshes * train)
        if pitfalls := reward.refresh.pitfalls:  # at most: captions that repeat are graded once
            captions = pitfalls.draws + SHOWN + len(self.committee.teachers) * self.committee.captions_each
            calls = grading_calls(refreshes * train * captions, reward.call_per)
            yield from (CallEstimate.of("train_policy", planned) for planned in grading_plan(reward.judge, *calls))


RECIPE = RubicapRecipe
