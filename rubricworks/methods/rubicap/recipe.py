"""Recipe of the RubiCap pipeline."""

from typing import Literal

from pydantic import model_validator

from rubricworks.policy.judges import combination, graders
from rubricworks.policy.policy import CaptionPolicy
from rubricworks.policy.rewards.rubric import RubricReward
from rubricworks.recipe.recipe import Recipe
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


RECIPE = RubicapRecipe
