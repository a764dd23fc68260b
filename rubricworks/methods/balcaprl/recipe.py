"""Recipe of the BalCapRL pipeline."""

from collections.abc import Iterator
from typing import Literal

from pydantic import model_validator

from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import CAPTION_TOKENS, EXAM_TOKENS
from rubricworks.methods.balcaprl.stages.peer_rubrics import Config as RubricsConfig
from rubricworks.methods.balcaprl.stages.recap import Config as RecapConfig
from rubricworks.policy.policy import CaptionPolicy
from rubricworks.policy.rewards.reward import TrainingSize
from rubricworks.policy.rewards.rubric import RubricReward
from rubricworks.recipe.estimate import policy_calls, rubric_calls, scoring_calls
from rubricworks.recipe.recipe import CallEstimate, Recipe
from rubricworks.runtime.config import StageConfig
from rubricworks.stages.data.prepare import Config as PrepareConfig
from rubricworks.stages.evaluation.score_config import CaptionEvaluation
from rubricworks.stages.release.promote import Config as PromoteConfig
from rubricworks.stages.release.report import Config as ReportConfig
from rubricworks.stages.synthesis.write_exams import Config as ExamConfig
from rubricworks.stages.training.train_policy import CaptionConfig
from rubricworks.stages.training.warm_up import Config as WarmUpConfig


class BalcaprlRecipe(Recipe):
    """BalCapRL: train a captioner on precision, recall and linguistic quality, each normalised separately."""

    pipeline: Literal["balcaprl"]
    data: PrepareConfig
    recap: RecapConfig = RecapConfig()
    """Recaptioning of the references; `null` keeps the captions that came with the images."""
    warm_up: WarmUpConfig
    exams: ExamConfig
    rubrics: RubricsConfig = RubricsConfig()
    """Rubrics for the peer with RubiCap's reward; `null` writes none."""
    policy: CaptionPolicy
    evaluation: CaptionEvaluation
    promotion: PromoteConfig = PromoteConfig()
    report: ReportConfig = ReportConfig()

    @model_validator(mode="after")
    def _parts_fit(self) -> "BalcaprlRecipe":
        reserved = self.data.held_out + self.data.warm_up
        if self.world and self.world.scenes <= reserved:
            raise ValueError(
                f"world.scenes is {self.world.scenes}, data.held_out and data.warm_up take {reserved}: nothing is "
                "left to train on"
            )
        reward = self.policy.reward
        if isinstance(reward, RubricReward):
            if self.rubrics.committee is None:
                raise ValueError(
                    "policy.reward.type is rubric: training needs rubrics; add rubrics.committee and rubrics.rubric"
                )
            if reward.refresh:
                raise ValueError(
                    "policy.reward.refresh rewrites rubrics from a committee's captions, which this pipeline does not "
                    "pass on; leave it out"
                )
        if self.evaluation.scorers.caption_qa and "held_out" not in self.exams.splits:
            raise ValueError(
                "evaluation.scorers.caption_qa is set: held-out samples need exams; add held_out to exams.splits"
            )
        return self

    def stage_configs(self) -> dict[str, StageConfig]:
        """Stage → its configuration, in the order of the pipeline."""
        return {
            "prepare": self.data,
            "recap": self.recap,
            "warm_up": self.warm_up,
            "write_exams": self.exams,
            "peer_rubrics": self.rubrics,
            "train_balcaprl": CaptionConfig(**dict(self.policy)),
            "score": self.evaluation,
            "promote": self.promotion,
            "balcaprl_report": self.report,
        }

    def estimate_calls(self, items: int) -> Iterator[CallEstimate]:
        held_out = min(self.data.held_out, items)
        train = max(items - held_out - self.data.warm_up, 1)
        if self.data.max_train is not None:
            train = min(train, self.data.max_train)
        split_sizes = {"train": train, "held_out": held_out}
        if self.recap.captioner:
            references = sum(split_sizes[split] for split in self.recap.splits)
            yield CallEstimate(
                "recap",
                "recaption",
                self.recap.captioner,
                references,
                image_tokens(self.recap.captioner),
                CAPTION_TOKENS,
            )
        exams = sum(split_sizes[split] for split in self.exams.splits)
        yield CallEstimate(
            "write_exams", "exam", self.exams.writer, exams, image_tokens(self.exams.writer) + 400, EXAM_TOKENS
        )
        rubrics, makes = self.rubrics, "peer_rubrics"
        if rubrics.committee and rubrics.rubric:
            yield from rubric_calls(
                rubrics.committee, rubrics.student, rubrics.rubric, train, caption_stage=makes, rubric_stage=makes
            )
        yield from policy_calls("train_balcaprl", self.policy, TrainingSize(samples=train, held_out=held_out))
        yield from scoring_calls(self.evaluation, held_out, trained=self.trained_models(items))


RECIPE = BalcaprlRecipe
