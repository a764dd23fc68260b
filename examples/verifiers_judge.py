"""A rubric as the reward of a task of verifiers: each task's own criteria, judged in one call."""

import verifiers.v1 as vf

from rubricworks.adapters.verifiers import RubricGrade, RubricGradeConfig


class CaptionData(vf.TaskData):
    rubric: str  # {"criteria": [{"criterion": "names the cat", "weight": 3}]}, as JSON


class CaptionConfig(vf.TaskConfig):
    judge: RubricGradeConfig = RubricGradeConfig()


class CaptionTask(vf.Task[CaptionData, vf.State, CaptionConfig]):
    @vf.reward
    async def rubric(self, trace: vf.Trace) -> float:
        return await RubricGrade(self.config.judge).score(self.data, trace)
