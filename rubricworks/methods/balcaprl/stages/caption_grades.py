"""Gradings of the captions of a training step, as rows of the table `caption_grades`."""

from typing import Any

from rubricworks.adapters.captions import CaptionGrade
from rubricworks.runtime.call_table import Row
from rubricworks.stages.training.step_tables import GradingTable

TABLE = "caption_grades"
_REWARDS = ("precision", "recall", "linguistic")


def caption_grade_table() -> GradingTable[CaptionGrade]:
    """The table of a training on precision, recall and linguistic quality."""
    return GradingTable(TABLE, _row, _count_assertions)


def _row(step: Any, at: int, grade: CaptionGrade) -> Row:
    graded = grade.graded
    return {
        "step": step.step,
        "sample_id": graded.sample_id,
        "response": graded.caption,
        "judge": graded.judge,
        "graded": graded.model_dump_json(),
        **dict(zip(_REWARDS, graded.scores or [None] * len(_REWARDS), strict=True)),
        "gated": grade.gate_shut,
        "tokens": grade.lengths.caption,
        "reference_tokens": grade.lengths.reference,
        "advantage": step.advantages[at],
    }


def _count_assertions(grade: CaptionGrade) -> int:
    assertions = grade.graded.assertions
    if assertions is None:
        return 0
    return len(assertions.synthetic_features.atomic_assertions) + len(assertions.gt_features.atomic_assertions)
