"""Held-out images with the captions of both models and the verdicts on them, side by side.

The images are drawn by a hash of their names and the seed: neither the best nor the worst are picked.
"""

from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.reports.run_folder import table_rows
from rubricworks.reports.samples import data_uri, drawn_samples, sample_rows
from rubricworks.rubrics import Rubric, Scorecard, Verdict

Rows = dict[tuple[str, str], dict[str, Any]]
"""(sample_id, model) → row of `evaluations`."""


class CriterionVerdicts(NamedTuple):
    """One criterion and what the judge said of either caption."""

    title: str
    rule: str
    weight: float
    base: Verdict | None
    policy: Verdict | None

    @property
    def change(self) -> str:
        """gained | lost | "" : what training did to it."""
        before, after = (verdict.credit if verdict else None for verdict in (self.base, self.policy))
        if before is None or after is None or before == after:
            return ""
        return "gained" if after > before else "lost"

    @property
    def met_by_both(self) -> bool:
        return all(verdict is not None and verdict.credit == 1 for verdict in (self.base, self.policy))


class Example(NamedTuple):
    """One image on the page."""

    sample_id: str
    image: str | None
    """Data URI."""
    source: str
    base: dict[str, Any] | None
    policy: dict[str, Any] | None
    """Rows of `evaluations`."""
    criteria: list[CriterionVerdicts]

    @property
    def telling(self) -> list[CriterionVerdicts]:
        """The criteria that tell the captions apart, or that one of them does not meet."""
        return [criterion for criterion in self.criteria if not criterion.met_by_both]

    @property
    def met_by_both(self) -> list[CriterionVerdicts]:
        return [criterion for criterion in self.criteria if criterion.met_by_both]

    @property
    def preferred(self) -> str | None:
        """policy | base | neither, or None if they were not compared."""
        win = self.policy["win"] if self.policy else None
        if win is None:
            return None
        return "neither" if win == 0.5 else "policy" if win > 0.5 else "base"


def read_examples(run: Path, count: int, *, decoding: str, seed: int) -> list[Example]:
    """Up to `count` evaluated samples, in the order of their draw."""
    ids = drawn_samples((row["sample_id"] for row in table_rows(run / "evaluate", ["sample_id"])), count, seed)
    rows: Rows = {
        (row["sample_id"], row["model"]): row
        for row in table_rows(run / "evaluate")
        if row["sample_id"] in ids and row["decoding"] == decoding
    }
    rubrics = {
        row["sample_id"]: Rubric.model_validate_json(row["rubric"])
        for row in table_rows(run / "synthesize_rubrics", ["sample_id", "rubric"])
        if row["sample_id"] in ids
    }
    images = sample_rows(run / "prepare", set(ids), ["image", "source"])
    return [_example(sample_id, rows, rubrics.get(sample_id), images.get(sample_id)) for sample_id in ids]


def _example(sample_id: str, rows: Rows, rubric: Rubric | None, image: dict[str, Any] | None) -> Example:
    base, policy = rows.get((sample_id, "base")), rows.get((sample_id, "policy"))
    before, after = _verdicts(base), _verdicts(policy)
    criteria = [
        CriterionVerdicts(
            title=criterion.criterion,
            rule=criterion.evaluation_rule or criterion.description,
            weight=criterion.weight,
            base=before.get(criterion.criterion),
            policy=after.get(criterion.criterion),
        )
        for criterion in sorted(rubric.criteria if rubric else (), key=lambda criterion: -criterion.weight)
    ]
    return Example(
        sample_id=sample_id,
        image=image and data_uri(image["image"]),
        source=image["source"] if image else "",
        base=base,
        policy=policy,
        criteria=criteria,
    )


def _verdicts(row: dict[str, Any] | None) -> dict[str, Verdict]:
    if row is None or row["scorecard"] is None:
        return {}
    return {verdict.criterion: verdict for verdict in Scorecard.model_validate_json(row["scorecard"]).verdicts}
