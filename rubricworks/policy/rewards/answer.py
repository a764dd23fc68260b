"""Answer reward: the final answer alone, checked by a verifier (RLVR, the baseline of RLR³, section 4.5).

It is a checklist of one verifiable criterion with the last box as extractor, so no model is called. The reward is the
verifier's score, or 0 for a response that never ended. Samples whose reference answer fits no verifier are dropped and
counted.
"""

from collections.abc import Iterator
from typing import Literal

from rubricworks.adapters.trl import GroupReward
from rubricworks.data.tables import read_rows
from rubricworks.grading.boxed import BoxedGrader, answer_rubric
from rubricworks.llm.usage import PlannedCalls
from rubricworks.policy.rewards.reward import PreparedReward, Reward, Training, TrainingSize
from rubricworks.policy.rubric_texts import refill_criterion, rubric_texts
from rubricworks.policy.step_tables import scorecard_table
from rubricworks.runtime.job import Job
from rubricworks.training.config import TextRollouts


class AnswerReward(Reward):
    """Score of the answer in the last box."""

    type: Literal["answer"]

    def build(self, training: Training) -> PreparedReward:
        rubrics = _answer_rubrics(training.job)
        rollouts, scorecards = training.rollouts, scorecard_table()
        assert isinstance(rollouts, TextRollouts)
        reward = GroupReward(
            BoxedGrader(),
            group_size=rollouts.group_size,
            max_tokens=rollouts.max_new_tokens,
            remap=False,
            gate=False,
            mask=False,
            criterion=refill_criterion(training.refill, rubrics),
            sink=scorecards.add,
        )
        return PreparedReward(functions=[reward], gradings=scorecards, values=rubrics)

    def estimate(self, size: TrainingSize) -> Iterator[PlannedCalls]:
        return iter(())

    def describe(self) -> str:
        return "The reward is the verifier's score of the final answer, in the last box; no model is called."


def _answer_rubrics(job: Job) -> dict[str, str]:
    passed = rubric_texts(job)
    rubrics: dict[str, str] = {}
    for row in read_rows(job.inputs["samples"], columns=["sample_id", "answer", "options"]):
        if row["sample_id"] in passed:
            try:
                rubric = answer_rubric(row["answer"] or "", options=bool(row["options"]))
            except ValueError:
                continue
            rubrics[row["sample_id"]] = rubric.model_dump_json()
    job.figures["without_an_answer"] = len(passed) - len(rubrics)
    return rubrics
