"""Scores of a run for its pages: the scoreboard, and responses to a few samples with what scorers said of them."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.data.response_images import response_of
from rubricworks.evaluation.scoreboard import BASE, POLICY, WIN, figure_name
from rubricworks.metrics import Interval, share_interval
from rubricworks.reports.run_folder import table_rows
from rubricworks.rubrics import Response

STAGE = "score"
_SAME_IN_BOTH_ORDERS = (("A", "B"), ("B", "A"), ("Tie", "Tie"))


class ScoredResponse(NamedTuple):
    """One model's response to one sample."""

    response: Response
    tokens: int | None
    values: dict[str, float | None]
    """Figure → value; None if it could not be judged."""
    evidence: dict[str, str]
    """Scorer → JSON."""

    @property
    def text(self) -> str:
        return self.response.text or ""

    @property
    def judgment(self) -> str:
        """The arena judge's reasons."""
        evidence = json.loads(self.evidence.get("arena", "{}"))
        return "; ".join(evidence.get("reasons", ()))


def response_rows(run: Path) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of `responses`; none without an evaluation."""
    return table_rows(run / STAGE / "responses")


def score_rows(run: Path, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of `scores`; none without an evaluation."""
    return table_rows(run / STAGE, columns)


def arena_order_changes(run: Path, *, decoding: str) -> Interval | None:
    """Share of comparisons in both orders whose verdict changes with the places of the captions; None without any."""
    changes, names = [], []
    for row in score_rows(run, ["sample_id", "decoding", "scorer", "evidence"]):
        if row["scorer"] != "arena" or row["decoding"] != decoding or row["evidence"] is None:
            continue
        judgments = json.loads(row["evidence"]).get("judgments", ())
        if len(judgments) == 2:
            changes.append(float(tuple(judgments) not in _SAME_IN_BOTH_ORDERS))
            names.append(row["sample_id"])
    return share_interval(changes, clusters=names) if changes else None


def scored_ids(run: Path, model: str | None = None) -> list[str]:
    """Samples whose responses were scored, each once; by default those of any model."""
    rows = score_rows(run, ["sample_id", "model", "scorer"])
    ids = (
        row["sample_id"]
        for row in rows
        if row["sample_id"] is not None
        and model in (None, row["model"])
        and not row["scorer"].startswith("benchmark_")  # its samples are its own
    )
    return list(dict.fromkeys(ids))


def scored_responses(
    run: Path, sample_ids: Collection[str], *, decoding: str, steps: dict[str, int] | None = None
) -> dict[tuple[str, str], ScoredResponse]:
    """Read (sample, model) → scored response.

    Args:
        steps: model → the milestone that stands for it.
    """
    ids, steps = set(sample_ids), steps or {}

    def wanted(row: dict[str, Any]) -> bool:
        at_step = row["step"] == steps.get(row["model"], row["step"])
        return row["sample_id"] in ids and row["decoding"] == decoding and at_step

    scored: dict[tuple[str, str], ScoredResponse] = {}
    for row in response_rows(run):
        if wanted(row):
            scored[row["sample_id"], row["model"]] = ScoredResponse(response_of(row), row["tokens"], {}, {})
    for row in score_rows(run):
        if wanted(row) and (response := scored.get((row["sample_id"], row["model"]))):
            response.values[figure_name(row["scorer"], row["part"])] = row["value"]
            if row["evidence"] is not None:
                response.evidence[row["scorer"]] = row["evidence"]
    return scored


def preferred(policy: ScoredResponse | None) -> str | None:
    """Response that the arena prefers: "policy", "base" or "neither"; None without a comparison."""
    win = policy.values.get(WIN) if policy else None
    if win is None:
        return None
    return "neither" if win == 0.5 else POLICY if win > 0.5 else BASE
