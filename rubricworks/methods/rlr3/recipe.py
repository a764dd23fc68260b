"""Recipe of the RLR³ pipeline."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from rubricworks.evaluation.scorers.answers import AnswerScorer
from rubricworks.evaluation.scorers.scorer_table import AnswerScorers
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import CAPTION_TOKENS, GUIDE_TOKENS, GradingCalls
from rubricworks.methods.rlr3.stages.audit import Config as AuditConfig
from rubricworks.methods.rlr3.stages.genrm_data import Config as GenrmDataConfig
from rubricworks.methods.rlr3.stages.offline_filter import Config as FilterConfig
from rubricworks.methods.rlr3.stages.open_questions import Config as OpenConfig
from rubricworks.methods.rlr3.stages.train_genrm import Config as GenrmConfig
from rubricworks.methods.rlr3.stages.write_checklists import Config as ChecklistConfig
from rubricworks.policy.judges import combination, graders
from rubricworks.policy.policy import AnswerPolicy
from rubricworks.policy.rewards.answer import AnswerReward
from rubricworks.policy.rewards.checklist import CHECKLIST_TOKENS, EXECUTION_TOKENS, ChecklistReward
from rubricworks.policy.rewards.reward import TrainingSize
from rubricworks.recipe.estimate import audit_calls, policy_calls, scoring_calls
from rubricworks.recipe.recipe import CallEstimate, Recipe
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.packages import require_installed
from rubricworks.runtime.preflight_checks import Check, run_check
from rubricworks.stages.data.prepare_questions import Config as PrepareConfig
from rubricworks.stages.evaluation.score_config import AnswerEvaluation
from rubricworks.stages.release.promote import Config as PromoteConfig
from rubricworks.stages.release.report import Config as ReportConfig
from rubricworks.stages.synthesis.rubric_gate import AuditGate
from rubricworks.stages.training.warm_up import Config as WarmUpConfig

MULTIPLE_CHOICE_SHARE = 0.35
"""Table 1 of the paper: 22 to 48 % of a corpus."""
FILTER_SHARE = 0.4
"""Table 1 of the paper: the essential rule keeps 25 to 60 %."""
PATTERNS_PER_ROUND = 3
"""Attack patterns per proposal of the red team: one of each family."""


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

    def estimate_calls(self, items: int) -> Iterator[CallEstimate]:
        held_out, train = min(self.data.held_out, items), self._train(items)
        checklist, grading = CHECKLIST_TOKENS, EXECUTION_TOKENS
        if self.opening.opener:
            choices = round((train + held_out) * MULTIPLE_CHOICE_SHARE)
            yield CallEstimate(
                "open_questions", "opening", self.opening.opener, choices, image_tokens(self.opening.opener) + 300, 100
            )
        for teacher in self.checklists.teachers:
            prompt = image_tokens(teacher) + GUIDE_TOKENS
            yield CallEstimate("write_checklists", "checklist", teacher, train + held_out, prompt, 2 * checklist)
        if self.checklists.merger:
            prompt = image_tokens(self.checklists.merger) + GUIDE_TOKENS + len(self.checklists.teachers) * checklist
            yield CallEstimate(
                "write_checklists", "merging", self.checklists.merger, train + held_out, prompt, 2 * checklist
            )
        if self.checklists.examiner:
            yield CallEstimate("write_checklists", "examining", self.checklists.examiner, train + held_out, *grading)
        yield CallEstimate("offline_filter", "judge", self.filter.judge, train * self.filter.rollouts, *grading)
        if gate := self.checklist_gate():
            yield from audit_calls("offline_filter", gate, train, GradingCalls(0, *grading))
        labelled = round(train * FILTER_SHARE)
        if self.genrm_data.samples is not None:
            labelled = min(labelled, self.genrm_data.samples)
        responses = labelled * self.genrm_data.responses_each
        for teacher in self.genrm_data.teachers:
            yield CallEstimate("genrm_data", "label", teacher, responses, *grading)
        audit, abnormal = self.audit, 4 * self.audit.per_category
        trials = 0
        if audit.red_team:
            trials = audit.search_rounds * PATTERNS_PER_ROUND * audit.search_size
            yield CallEstimate(
                "audit", "red team", audit.red_team, audit.search_rounds, GUIDE_TOKENS + CAPTION_TOKENS, 600
            )
        if audit.generator:
            yield CallEstimate(
                "audit", "generator", audit.generator, 2 * abnormal + trials, GUIDE_TOKENS + CAPTION_TOKENS, 600
            )
        for judge in audit.quality_judges:
            yield CallEstimate("audit", "quality", judge, 2 * abnormal + trials, GUIDE_TOKENS + CAPTION_TOKENS, 150)
        gradings = (abnormal + (audit.regular or self.genrm_data.test)) * len(audit.settings) + trials
        yield CallEstimate("audit", "judge", audit.judge, gradings, *grading)
        passed = round(train * FILTER_SHARE)
        yield from policy_calls("train_rlr3", self.policy, TrainingSize(samples=passed, held_out=held_out))
        yield from scoring_calls(self.evaluation, held_out, trained=self.trained_models(items))

    def trained_models(self, items: int) -> int:
        """Milestones of RLR³ and of RLVR."""
        algorithm = self.policy.algorithm
        return 2 * (algorithm.steps_on(round(self._train(items) * FILTER_SHARE)) // algorithm.milestone_every)

    def _train(self, items: int) -> int:
        """Questions to train on."""
        train = max(items - min(self.data.held_out, items) - self.data.warm_up, 1)
        return train if self.data.max_train is None else min(train, self.data.max_train)


RECIPE = Rlr3Recipe
