"""Register the policy, and make it the champion if its evaluation passes the gate."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import LENGTH, SCORES_FILE, WIN, Scoreboard, read_scoreboard
from rubricworks.metrics import Interval
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job, model_dir
from rubricworks.storage import write_atomic
from rubricworks.tracking import (
    Connection,
    Gate,
    GateResult,
    ModelVersion,
    SampleKey,
    StagedRecipe,
    registry,
    stage_connection,
    stage_run,
)
from rubricworks.tracking.lineage import lineage_tags, store_lineage

Figures = dict[str, dict[str, Any]]
"""Name of a figure → its parts, as the gate reads them."""

_NAMES = {WIN: "win_rate", "answers_right": "accuracy", LENGTH: "tokens"}
"""Figure → name in the gate and in the registry, where it has another."""


class Config(StageConfig):
    model_name: str = "captioner"
    """Name in the model registry."""
    gate: Gate = Gate()
    """Thresholds for the policy on the held-out samples: on its greedy captions, or on its answers."""
    recipe: StagedRecipe | None = Field(default=None, exclude_if=lambda recipe: recipe is None)
    """Recipe of the policy, for the registry's lineage; filled in by the recipe."""


def run(config: Config, job: Job) -> None:
    figures = evaluation_figures(job.inputs["scores"])
    result = config.gate.check(figures)
    version = None
    with stage_run(job.run, job.stage) as log:
        log.log_metrics({f"{name}/{part}": value for name, pair in figures.items() for part, value in pair.items()})
        log.set_tags({"gate": "passed" if result.passed else "failed"})
        if target := stage_connection(job.run, job.stage):
            connection, mlflow_run = target
            registered = register_policy(job, connection, mlflow_run, config.model_name, result, figures, config.recipe)
            version = str(registered.version)
            if result.passed:
                registry.promote(connection, config.model_name, registered.version)
    promotion = {
        "model_name": config.model_name,
        "version": version,
        "passed": result.passed,
        # Without a registry there is nowhere to be champion.
        "promoted": result.passed and version is not None,
        "reasons": list(result.reasons),
    }
    write_atomic(job.out / "promotion.json", canonical_json(promotion).encode())
    job.figures.update(promoted=promotion["promoted"], version=version)


def register_policy(
    job: Job,
    connection: Connection,
    mlflow_run: str,
    name: str,
    result: GateResult,
    figures: Figures,
    recipe: StagedRecipe | None,
    **tags: Any,
) -> ModelVersion:
    """Register the job's input `policy`, with the lineage needed to retrain it on more data.

    Args:
        mlflow_run: id of the stage's MLflow run.
        recipe: recipe of the policy; None for a stage that is run by itself.
        tags: further tags of the version.
    """
    lineage: Mapping[str, str] = {}
    if recipe:
        rows = read_rows(job.inputs["samples"], columns=[*SampleKey._fields])
        lineage = lineage_tags(
            recipe, store_lineage(connection, mlflow_run, recipe, (SampleKey(**row) for row in rows))
        )
    return registry.register(
        connection,
        model_dir(job.inputs["policy"]),
        name,
        run=mlflow_run,
        tags={
            "run": job.run.name,
            "data_digest": job.made_by["inputs"]["samples"],
            "gate": "; ".join(result.reasons),
            **lineage,
            **tags,
            **{f"{name}.{part}": value for name, pair in figures.items() for part, value in pair.items()},
        },
    )


def evaluation_figures(scores: Path) -> Figures:
    """Read the figures of an evaluation, as the gate and the registry name them.

    Raises:
        UserError: there is no scoreboard.
    """
    board = read_scoreboard(scores)
    if board is None:
        raise UserError(f"{scores}: no {SCORES_FILE}; run the stage score first")
    return gate_figures(board)


def gate_figures(board: Scoreboard) -> Figures:
    """Return the first figure of each scorer for base and candidate, and the candidate's gains and win rate."""
    candidate = board.candidate or ""
    figures: Figures = {"win_rate": _interval(board.mean(candidate, WIN))}
    for figure in (*board.headlines, LENGTH):
        if figure == WIN:
            continue
        name = _NAMES.get(figure, figure)
        means = {"base": board.mean(board.base, figure), "policy": board.mean(candidate, figure)}
        figures[name] = {model: mean.value if mean else None for model, mean in means.items()}
        if figure != LENGTH:
            figures[f"{name}_gain"] = _interval(board.gain(candidate, figure))
    return figures


def _interval(figure: Interval | None) -> dict[str, float | None]:
    return {part: getattr(figure, part) if figure else None for part in ("value", "low", "high", "samples")}
