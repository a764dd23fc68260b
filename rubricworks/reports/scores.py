"""Scores of a run for its pages: the scoreboard, and responses to a few samples with what scorers said of them."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.data.manifest import MANIFEST
from rubricworks.data.response_images import response_of
from rubricworks.evaluation.retired_tables import (
    retired_folder,
    retired_responses,
    retired_scores,
    retired_tasks,
)
from rubricworks.evaluation.scoreboard import BASE, POLICY, Scoreboard, figure_name, read_scoreboard, summarise_scores
from rubricworks.metrics import Interval, share_interval
from rubricworks.reports.run_folder import read_recipe, table_rows
from rubricworks.rubrics import Response

STAGE = "score"
_SAME_IN_BOTH_ORDERS = (("A", "B"), ("B", "A"), ("Tie", "Tie"))
_DEFAULT_SEED = 1
"""Seed of every stage whose recipe sets none."""


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


def read_board(run: Path) -> Scoreboard | None:
    """Read the scoreboard of a run; that of an older run is computed from the tables of its retired stage.

    Raises:
        UserError: a file is damaged.
    """
    if (board := read_scoreboard(run / STAGE)) or (folder := retired_folder(run)) is None:
        return board
    answers = folder.name == "evaluate_answers"
    return summarise_scores(
        retired_scores(folder),
        tasks=retired_tasks(folder),
        by_task=("answers_right",) if answers else (),
        select_by="answers_right" if answers else None,
        seed=_evaluation_seed(run) if answers else 0,
    )


def _evaluation_seed(run: Path) -> int:
    """Seed of an older run's evaluation, with which its intervals were resampled."""
    recipe = read_recipe(run)
    evaluation = recipe.get("evaluation")
    seed = evaluation.get("seed", recipe.get("seed")) if isinstance(evaluation, dict) else None
    return seed if isinstance(seed, int) else _DEFAULT_SEED


def response_rows(run: Path) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of `responses`; none without an evaluation."""
    if (run / STAGE / "responses" / MANIFEST).is_file():
        yield from table_rows(run / STAGE / "responses")
    elif folder := retired_folder(run):
        yield from retired_responses(folder)


def score_rows(run: Path, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of `scores`; none without an evaluation."""
    if (run / STAGE / MANIFEST).is_file():
        yield from table_rows(run / STAGE, columns)
    elif folder := retired_folder(run):
        yield from retired_scores(folder)


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
        if wanted(row) and (one := scored.get((row["sample_id"], row["model"]))):
            one.values[figure_name(row["scorer"], row["part"])] = row["value"]
            if row["evidence"] is not None:
                one.evidence[row["scorer"]] = row["evidence"]
    return scored


def preferred(policy: ScoredResponse | None, figure: str = "arena_win") -> str | None:
    """Preferred response: "policy", "base" or "neither"; None without a comparison."""
    win = policy.values.get(figure) if policy else None
    if win is None:
        return None
    return "neither" if win == 0.5 else POLICY if win > 0.5 else BASE
