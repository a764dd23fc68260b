"""Checklist reward: criteria executed with minimal exposure, remapped and gated in each group (RLR³, section 4.3)."""

from collections.abc import Iterator
from typing import Annotated, Literal

from rubricworks.adapters.trl import GroupReward
from rubricworks.grading import Exposure, Grader
from rubricworks.llm import SeesImages
from rubricworks.llm.usage import CAPTION_TOKENS, GUIDE_TOKENS, TOKENS_PER_CRITERION, PlannedCalls
from rubricworks.policy.judges import PanelOrOne, combination, describe_judge, graders
from rubricworks.policy.rewards.reward import PreparedReward, Reward, Training, TrainingSize
from rubricworks.policy.rubric_texts import refill_criterion, rubric_texts
from rubricworks.policy.step_tables import scorecard_table
from rubricworks.training.config import TextRollouts

CRITERIA_PER_CHECKLIST = 3
"""Table 3 of RLR³: 3.19 on average."""
CHECKLIST_TOKENS = CRITERIA_PER_CHECKLIST * TOKENS_PER_CRITERION
EXECUTION_TOKENS = (GUIDE_TOKENS + CAPTION_TOKENS + CHECKLIST_TOKENS, 2 * CHECKLIST_TOKENS)
"""Tokens in and out of one call that executes a checklist."""
_EXPOSED = {
    "text": ", shown neither the image nor the verifiers' targets",
    "image": ", shown the image as well",
    "targets": ", shown the verifiers' targets as well",
    "unverified": ", given the targets as words and no verifier",
}


class ChecklistReward(Reward):
    """Credits of a checklist, remapped and gated in the group."""

    type: Literal["checklist"]
    judge: Annotated[PanelOrOne, SeesImages(lambda reward: reward.exposure == "image")]
    """Extractor and judge: a text model, such as a GenRM."""
    exposure: Exposure = "text"
    """`text` is minimal exposure; the others are the paper's ablations."""
    remap: bool = True
    """Remap credits within the group (RLR³, section 4.3.1)."""
    gate: bool = True
    """Give no credit to a response that misses an essential criterion (RLR³, section 4.3.2)."""
    mask: bool = True
    """Parts of the reward; ablations turn them off."""

    def build(self, training: Training) -> PreparedReward:
        rubrics = rubric_texts(training.job)
        judges = [training.job.client(endpoint, "judge") for endpoint in graders(self.judge)]
        grader = Grader(judges, exposure=self.exposure, combine=combination(self.judge), on_error=training.letters.add)
        rollouts, scorecards = training.rollouts, scorecard_table()
        assert isinstance(rollouts, TextRollouts)
        reward = GroupReward(
            grader,
            group_size=rollouts.group_size,
            max_tokens=rollouts.max_new_tokens,
            remap=self.remap,
            gate=self.gate,
            mask=self.mask,
            criterion=refill_criterion(training.refill, rubrics),
            sink=scorecards.add,
        )
        return PreparedReward([reward], scorecards, rubrics, judges=judges, start=reward.start)

    def estimate(self, size: TrainingSize) -> Iterator[PlannedCalls]:
        for judge in graders(self.judge):
            yield PlannedCalls("judge", judge, size.rollouts, *EXECUTION_TOKENS)

    def describe(self) -> str:
        rules = [
            "credits are remapped in each group" if self.remap else "credits are not remapped",
            "a failed essential criterion gives 0" if self.gate else "no criterion gates the reward",
        ]
        judge = f"{describe_judge(self.judge)} executes the whole checklist{_EXPOSED[self.exposure]}"
        return f"{judge}; {', and '.join(rules)}."
