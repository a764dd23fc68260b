"""Register the policy, and make it the champion if its evaluation passes the gate."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from rubricworks.data.tables import read_rows
from rubricworks.evaluation.answer_summary import ANSWERS_FILE, AnswerSummary
from rubricworks.evaluation.caption_summary import BASE, CAPTIONS_FILE, POLICY, CaptionSummary
from rubricworks.evaluation.summary import EvaluationSummary, ModelScores
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

VIEWS = ("b_capscore", "dc_score", "caption_qa", "oracle_f1", "tokens")
"""Caption scores that are reported for the base and the policy."""


class Config(StageConfig):
    model_name: str = "captioner"
    """Name in the model registry."""
    gate: Gate = Gate()
    """Thresholds for the policy on the held-out samples: on its greedy captions, or on its answers."""
    recipe: StagedRecipe | None = Field(default=None, exclude_if=lambda recipe: recipe is None)
    """Recipe of the policy, for the registry's lineage; filled in by the recipe."""


def run(config: Config, job: Job) -> None:
    figures = evaluation_figures(job.inputs["evaluations"])
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


def evaluation_figures(evaluations: Path) -> Figures:
    """Read the figures of an evaluation: of answers, of captions by several scores, or of captions by rubrics."""
    if (answers := evaluations / ANSWERS_FILE).is_file():
        return answer_figures(AnswerSummary.model_validate_json(answers.read_bytes()))
    if (captions := evaluations / CAPTIONS_FILE).is_file():
        return caption_figures(CaptionSummary.model_validate_json(captions.read_bytes()))
    return gate_figures(EvaluationSummary.model_validate_json((evaluations / "summary.json").read_bytes()))


def answer_figures(summary: AnswerSummary) -> Figures:
    """Return the macro average of the policy's best milestone and its gain over the base."""
    arm = "rlr3" if "rlr3" in summary.arms else next(iter(summary.arms))
    gain = summary.gains[arm]
    return {
        "accuracy": {"base": summary.base.macro.value, "policy": summary.accuracy(arm).macro.value},
        "accuracy_gain": _interval(gain),
    }


def caption_figures(summary: CaptionSummary) -> Figures:
    """Return the arena's win rate, the available scores and the policy's paired gain in b-CapScore."""
    base, policy = (summary.models.get(model, {}) for model in (BASE, POLICY))
    pairs = {name: {"base": base.get(name), "policy": policy.get(name)} for name in VIEWS}
    return {
        "win_rate": _interval(summary.win_rate),
        "b_capscore_gain": _interval(summary.gains.get("b_capscore")),
        **{
            name: {model: figure.value if figure else None for model, figure in pair.items()}
            for name, pair in pairs.items()
            if any(pair.values())
        },
    }


def gate_figures(summary: EvaluationSummary) -> Figures:
    """Return the gate's figures for greedy decoding, or for the first decoding if there is no greedy one."""
    decoding = "greedy" if "greedy" in summary.models else next(iter(summary.models), "greedy")
    models = summary.models.get(decoding, {})
    return {
        "win_rate": _interval(summary.win_rate.get(decoding)),
        "oracle_f1": _pair(models, "oracle_f1"),
        "rubric_reward": _pair(models, "rubric_reward"),
    }


def _interval(figure: Interval | None) -> dict[str, float | None]:
    return {part: getattr(figure, part) if figure else None for part in ("value", "low", "high")}


def _pair(models: dict[str, ModelScores], name: str) -> dict[str, float | None]:
    values = {model: getattr(figures, name) for model, figures in models.items()}
    return {model: figure.value if figure else None for model, figure in values.items()}
