"""An environment of verifiers: each task of a rubric set, its reply graded by its own criteria in one call."""

import verifiers.v1 as vf

from rubricworks.adapters.verifiers import RubricTask, RubricTaskConfig, RubricTaskData
from rubricworks.data.rubric_sets import read_rubric_set


class CaptionsConfig(vf.TasksetConfig):
    rubrics: str = "rubrics.jsonl"  # any set that `rubricworks rubrics import` reads
    task: RubricTaskConfig = RubricTaskConfig()


class CaptionsTaskset(vf.Taskset[RubricTask, CaptionsConfig]):
    def load(self) -> list[RubricTask]:
        sets = read_rubric_set(self.config.rubrics, None, note=print)
        return [RubricTask(RubricTaskData.of(entry), self.config.task) for entry in sets]


__all__ = ["CaptionsTaskset"]
