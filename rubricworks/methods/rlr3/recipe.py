"""Recipe of the RLR³ pipeline."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from rubricworks.evaluation.scorers.answers import AnswerScorer
from rubricworks.evaluation.scorers.scorer_table import AnswerScorers
from rubricworks.methods.rlr3.stages.audit import Config as AuditConfig
from rubricworks.methods.rlr3.stages.genrm_data import Config as GenrmDataConfig
from rubricworks.methods.rlr3.stages.offline_filter import Config as FilterConfig
from rubricworks.methods.rlr3.stages.open_questions import Config as OpenConfig
from rubricworks.methods.rlr3.stages.train_genrm import Config as GenrmConfig
from rubricworks.methods.rlr3.stages.write_checklists import Config as ChecklistConfig
from rubricworks.policy.judges import combination, graders
from rubricworks.policy.policy import AnswerPolicy
from rubricworks.policy.rewards.answer import AnswerReward
from rubricworks.policy.rewards.checklist import ChecklistReward
from rubricworks.recipe.recipe import Recipe
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.packages import require_installed
from rubricworks.runtime.preflight_checks import Check, run_check
from rubricworks.stages.data.prepare_questions import Config as PrepareConfig
from rubricworks.stages.evaluation.score_config import AnswerEvaluation
from rubricworks.stages.release.promote import Config as PromoteConfig
from rubricworks.stages.release.report import Config as ReportConfig
from rubricworks.stages.synthesis.rubric_gate import AuditGate
from rubricworks.stages.training.warm_up import Config as WarmUpConfig


class EvaluationSection(AnswerEvaluation):
    """The stage `score` with both arms' milestones, by the answers to the held-out questions."""

    scorers: AnswerScorers = AnswerScorers(answers=AnswerScorer())
    max_new_tokens: int = Field(default=6144, ge=1)
    policy: Literal["rlr3"] = "rlr3"
    peer: Literal["rlvr"] = "rlvr"
    select_by: str = "answers_right"


class Rlr3Recipe(Recipe):
    """RLR³: questions with partly verifiable answers, checklists, a GenRM, its audit, and policies by RLR³ and RLVR."""

    item_noun: ClassVar[str] = "question"

    pipeline: Literal["rlr3"]
    data: PrepareConfig
    opening: OpenConfig = OpenConfig()
    warm_up: WarmUpConfig
    checklists: ChecklistConfig
    filter: FilterConfig
    genrm_data: GenrmDataConfig
    genrm: GenrmConfig
    audit: AuditConfig
    policy: AnswerPolicy
    """The arm with RLR³'s reward; the arm RLVR has the same algorithm and the reward `answer`."""
    evaluation: EvaluationSection = EvaluationSection()
    promotion: PromoteConfig = PromoteConfig()
    report: ReportConfig = ReportConfig()

    @model_validator(mode="after")
    def _parts_fit(self) -> "Rlr3Recipe":
        if self.world and not self.world.questions:
            raise ValueError("world.questions is 0: RLR³ trains on questions; set it to 1 or more for each scene")
        reserved = self.data.held_out + self.data.warm_up
        if self.world and self.world.scenes * self.world.questions <= reserved:
            raise ValueError(
                f"world.scenes is {self.world.scenes} with {self.world.questions} question(s) each, data.held_out and "
                f"data.warm_up take {reserved}: nothing is left to train on"
            )
        algorithm = self.policy.algorithm
        if not algorithm.milestone_every:
            raise ValueError("policy.algorithm.milestone_every is 0: the arms are compared by their milestones; set it")
        if algorithm.steps is not None and algorithm.steps % algorithm.milestone_every:
            raise ValueError(
                f"policy.algorithm.milestone_every {algorithm.milestone_every} does not divide policy.algorithm.steps "
                f"{algorithm.steps}: the end of training would not be evaluated"
            )
        return self

    def stage_configs(self) -> dict[str, StageConfig]:
        """Stage → its configuration, in the order of the pipeline."""
        return {
            "prepare_questions": self.data,
            "open_questions": self.opening,
            "warm_up": self.warm_up,
            "write_checklists": self.checklists,
            "offline_filter": self.filter.model_copy(update={"audit": self.checklist_gate()}),
            "genrm_data": self.genrm_data,
            "train_genrm": self.genrm,
            "audit": self.audit,
            "train_rlvr": self.policy.model_copy(update={"reward": AnswerReward(type="answer")}),
            "train_rlr3": self.policy,
            "score": self.evaluation,
            "promote": self.promotion,
            "rlr3_report": self.report,
        }

    def checklist_gate(self) -> AuditGate | None:
        """Return the gate on the checklists, by the policy's judges unless it names its own."""
        gate, reward = self.filter.audit, self.policy.reward
        if gate is None or gate.judges or not isinstance(reward, ChecklistReward):
            return gate
        return gate.model_copy(update={"judges": graders(reward.judge), "combine": combination(reward.judge)})

    def method_checks(self, runs: Path) -> Iterator[Check]:
        yield from super().method_checks(runs)
        verifiers = dict.fromkeys(("sympy", "rapidfuzz", "opencc"), "verifiers of answers")
        yield run_check("verifiers", lambda: require_installed(verifiers))

    def items_in_world(self) -> int:
        return self.world.scenes * self.world.questions if self.world else 0


RECIPE = Rlr3Recipe
