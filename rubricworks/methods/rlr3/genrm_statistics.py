"""Statistics of a GenRM's data: RLR³'s Table 3, one row per split."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from rubricworks.rubrics import Rubric


class DataStatistics(BaseModel):
    """Statistics of one split."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    instances: int
    """Responses with a label."""
    tasks: dict[str, int]
    """Source mix: instances per task; those without a task under the empty name."""
    criteria: int
    criteria_each: float
    """Criteria per instance."""
    verifiable_instances: int
    """Instances with at least one criterion that a verifier checks."""
    verifiable_criteria: int
    losing_instances: int
    """Instances that lose credit on some criterion; about half of them in balanced data."""

    @property
    def verifiable_instances_share(self) -> float:
        return self.verifiable_instances / self.instances if self.instances else 0.0

    @property
    def verifiable_criteria_share(self) -> float:
        return self.verifiable_criteria / self.criteria if self.criteria else 0.0


def data_statistics(rows: Iterable[Mapping[str, Any]]) -> dict[str, DataStatistics]:
    """Compute Table 3 from rows of the table `genrm_data`: split → statistics, in alphabetical order of the splits."""
    by_split: dict[str, list[tuple[str, int, int, bool]]] = {}
    for row in rows:
        criteria = Rubric.model_validate_json(row["rubric"]).criteria
        verifiable = sum(criterion.verifier is not None for criterion in criteria)
        instance = (row["task"] or "", len(criteria), verifiable, bool(row["loses_credit"]))
        by_split.setdefault(row["split"], []).append(instance)
    return {split: _statistics(rows) for split, rows in sorted(by_split.items())}


def _statistics(rows: list[tuple[str, int, int, bool]]) -> DataStatistics:
    criteria = sum(count for _, count, _, _ in rows)
    return DataStatistics(
        instances=len(rows),
        tasks=dict(sorted(Counter(task for task, _, _, _ in rows).items())),
        criteria=criteria,
        criteria_each=criteria / len(rows),
        verifiable_instances=sum(verifiable > 0 for _, _, verifiable, _ in rows),
        verifiable_criteria=sum(verifiable for _, _, verifiable, _ in rows),
        losing_instances=sum(loses for _, _, _, loses in rows),
    )
