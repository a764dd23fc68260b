"""The gate over the champion: a model's scores minus the champion's, on the held-out samples that both have.

The run has measured its policy against its own base. The registry keeps what the champion scored on each sample, by the
same scorers, so that the difference is paired, and the difficulty of a sample cancels out. Scores count as the same
figure if scorer, version, judge and, for comparisons, the opponent's revision are the same.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rubricworks.data.manifest import MANIFEST
from rubricworks.data.tables import read_rows
from rubricworks.evaluation.scoreboard import LENGTH, WIN, figure_name, read_scoreboard
from rubricworks.metrics import mean_interval, paired_differences
from rubricworks.tracking import Gate, GateResult
from rubricworks.tracking.sample_scores import SampleScores

EVEN = 0.5
"""Win rate of equals."""
FIGURE_NAMES = {WIN: "win_rate", "answers_right": "accuracy", LENGTH: "tokens"}
"""Figure → its different name in the gate and in the registry."""


def candidate_scores(scores: Path) -> SampleScores:
    """Read what the candidate scored on each sample, at the milestone and by the decoding that are reported first.

    Args:
        scores: output of the stage `score`; without a table, there are none.
    """
    board = read_scoreboard(scores)
    if board is None or board.candidate is None or not (scores / MANIFEST).is_file():
        return {}
    rows = list(read_rows(scores))
    revisions = {row["model"]: row["revision"] for row in rows}
    reported = (board.candidate, board.best.get(board.candidate), board.decoding)
    values: dict[str, dict[str, float | None]] = {}
    for row in rows:
        if (row["model"], row["step"], row["decoding"]) == reported and row["sample_id"] is not None:
            values.setdefault(_key(row, revisions.get(row["against"])), {})[row["sample_id"]] = row["value"]
    return values


def check_over_champion(
    gate: Gate, scores: SampleScores, champion: SampleScores, tasks: Mapping[str, str], by_task: set[str]
) -> GateResult | None:
    """Apply the gate's rules to the gains over the champion; None if a rule's figure was not scored alike for both.

    A win rate is compared as that of equals plus the difference of the two, so that its rule reads as over the base.

    Args:
        tasks: sample → task.
        by_task: figures that are averaged by task.
    """
    figures: dict[str, dict[str, Any]] = {}
    for key in scores.keys() & champion.keys():
        figure = json.loads(key)[0]
        differences = paired_differences(scores[key], champion[key])
        ordered = dict(sorted(differences.items(), key=lambda item: (tasks.get(item[0], ""), item[0])))
        strata = [tasks.get(sample, "") for sample in ordered] if figure in by_task else None
        gain = mean_interval(ordered.values(), share=False, strata=strata)
        if gain is None:
            continue
        shift = EVEN if figure == WIN else 0.0
        parts = {part: getattr(gain, part) for part in ("value", "low", "high")}
        name = FIGURE_NAMES.get(figure, figure)
        figures[name if figure == WIN else f"{name}_gain"] = {
            "samples": gain.samples,
            **{part: None if value is None else value + shift for part, value in parts.items()},
        }
    return gate.check(figures) if gate.figures <= figures.keys() else None


def _key(row: Mapping[str, Any], opponent: str | None) -> str:
    figure = figure_name(row["scorer"], row["part"])
    return json.dumps([figure, row["version"], row["judge"], opponent])
