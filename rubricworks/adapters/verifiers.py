"""Rubrics as a judge of verifiers (Prime Intellect), for a task's reward or as a plugged judge.

    class MyTask(vf.Task[MyData, vf.State, MyConfig]):
        @vf.reward
        async def rubric(self, trace: vf.Trace) -> float:
            return await RubricGrade(self.config.judge).score(self.data, trace)

The task's data hold the rubric (JSON or a dict) in `rubric_field`. Each criterion is a metric, `rubric-grade/TITLE`. A
response that could not be judged raises, as verifiers' own judges do: the rollout is an error, not a 0. A plugin is
found by the name of a module at the top: write one that imports `RubricGrade` and names it in `__all__`. `RubricTask`
is such a task for any rubric set; `examples/rubric_captions` makes an environment of it. Written against verifiers 0.4.
"""

import math
from functools import cached_property
from typing import Any

import verifiers.v1 as vf

from rubricworks.adapters.trl import RubricReward
from rubricworks.data.rubric_sets import RubricEntry
from rubricworks.errors import UserError
from rubricworks.grading import Grader, Subject
from rubricworks.llm import ChatClient, Endpoint


class RubricGradeConfig(vf.JudgeConfig):  # type: ignore[misc, unused-ignore]
    """Endpoint of the judge, as for any judge of verifiers, and the place of the rubric."""

    id: str = "rubric-grade"
    rubric_field: str = "rubric"
    """Field of the task's data that holds the rubric."""
    view: vf.JudgeView = "last_reply"
    subject: Subject = "caption"
    """`answer`: the judge is shown the task's prompt and the `answer` of its data, the reference answer."""
    max_tokens: int = 1024
    """Longest answer of the judge."""


class RubricGrade(vf.Judge[Any, RubricGradeConfig]):  # type: ignore[misc, unused-ignore]
    """Judge of verifiers that grades by the task's own rubric."""

    @cached_property
    def reward(self) -> RubricReward:
        endpoint = Endpoint(
            url=self.config.base_url,
            model=self.config.model,
            api_key_env=self.config.api_key_var or None,
            max_tokens=self.config.max_tokens,
        )
        return RubricReward(Grader(ChatClient(endpoint, purpose="judge"), subject=self.config.subject))

    async def score(self, task: Any, trace: Any) -> float:
        """Grade the reply.

        Raises:
            UserError: the task has no rubric, or a criterion could not be judged.
        """
        rubric = getattr(task, self.config.rubric_field, None)
        if rubric is None:
            raise UserError(
                f"task {task.id or task.idx}: its data have no field {self.config.rubric_field!r} with a rubric"
            )
        response = trace.last_reply if self.config.view == "last_reply" else trace.transcript
        columns = {
            "rubric": [rubric],
            "sample_id": [str(task.id or task.idx)],
            "answer": [getattr(task, "answer", None)],
        }
        # A task whose user holds the question has it aside, in versions after 0.4.0.
        prompt = task.prompt_text or getattr(task, "withheld_prompt_text", "")
        scores = await self.reward.score([prompt], [response], **columns)
        for verdict in scores.scorecards[0].verdicts:
            credit = math.nan if verdict.credit is None else verdict.credit
            trace.record_metric(f"{self.reward_name}/{verdict.criterion}", credit)
        if (reward := scores.rewards[0]) is None:
            failed = next(verdict for verdict in scores.scorecards[0].verdicts if verdict.error is not None)
            raise UserError(f"{failed.criterion!r} could not be judged ({failed.error}): {failed.reasoning}")
        return reward


class RubricTaskData(vf.TaskData):  # type: ignore[misc, unused-ignore]
    """A prompt with its rubric."""

    rubric: str
    """JSON of the rubric."""
    answer: str | None = None
    """Reference answer."""

    @classmethod
    def of(cls, entry: RubricEntry) -> "RubricTaskData":
        """Data of a rubric set's entry.

        Raises:
            UserError: it has no prompt.
        """
        if not entry.prompt:
            raise UserError(f"sample {entry.sample_id!r} has no prompt, and a policy needs one to answer")
        rubric, answer = entry.rubric.model_dump_json(), entry.reference or None
        return cls(id=entry.sample_id, prompt=entry.prompt, rubric=rubric, answer=answer)


class RubricTaskConfig(vf.TaskConfig):  # type: ignore[misc, unused-ignore]
    """Judge of a task: `--env.taskset.task.judge.*`."""

    judge: RubricGradeConfig = RubricGradeConfig()


class RubricTask(vf.Task[RubricTaskData, vf.State, RubricTaskConfig]):  # type: ignore[misc, unused-ignore]
    """Task that is rewarded by its own rubric."""

    @vf.reward  # type: ignore[untyped-decorator, unused-ignore]
    async def rubric(self, trace: Any) -> float:
        """Grade the last reply."""
        return await RubricGrade(self.config.judge).score(self.data, trace)


__all__ = ["RubricGrade", "RubricGradeConfig", "RubricTask", "RubricTaskConfig", "RubricTaskData"]
