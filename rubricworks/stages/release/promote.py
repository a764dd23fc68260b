"""Register the policy, and make it the champion if its evaluation passes the gate.

If there is a champion already, the policy must pass the gate over it too, by what both scored on the same samples. A
policy that passes over its base but was not scored alike becomes the challenger and waits for a person.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rubricworks.data.alarm import read_outcome
from rubricworks.data.manifest import MANIFEST
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.audit.summary import SUMMARY_FILE, AuditSummary
from rubricworks.evaluation.scoreboard import LENGTH, SCORES_FILE, WIN, Scoreboard, read_scoreboard
from rubricworks.metrics import Interval
from rubricworks.reports.run_folder import read_value
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job, model_dir
from rubricworks.stages.release.champion_gate import FIGURE_NAMES, candidate_scores, check_over_champion
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
from rubricworks.tracking.gate import AUDIT_FIGURE
from rubricworks.tracking.installation import ApiClient, promoting_api, request_promotion
from rubricworks.tracking.lineage import store_lineage
from rubricworks.tracking.sample_scores import SCORES_TAG, read_sample_scores, store_sample_scores
from rubricworks.training.generators.files import ADAPTER, BASE_FILE
from rubricworks.training.model_card import CARD, card_with_scores, score_lines

Figures = dict[str, dict[str, Any]]
"""Name of a figure → its parts, as the gate reads them."""


class Config(StageConfig):
    model_name: str = "captioner"
    """Name in the model registry."""
    gate: Gate = Gate()
    """Thresholds for the policy on the held-out samples: on its greedy captions, or on its answers."""
    recipe: StagedRecipe | None = None
    """Recipe of the policy, for the registry's lineage; filled in by the recipe."""


def run(config: Config, job: Job) -> None:
    api = promoting_api()  # before anything is registered
    figures = evaluation_figures(job.inputs["scores"])
    result = check_run(config.gate, figures, job)
    version, promoted = None, False
    with stage_run(job.run, job.stage) as log:
        log.log_metrics({f"{name}/{part}": value for name, pair in figures.items() for part, value in pair.items()})
        if target := stage_connection(job.run, job.stage):
            connection, mlflow_run = target
            registered = register_policy(job, connection, mlflow_run, config.model_name, result, figures, config.recipe)
            version = str(registered.version)
            if result.passed:
                result, promoted = _promote(config, job, connection, registered, result, api)
        log.set_tags({"gate": "passed" if result.passed else "failed"})
    promotion = {
        "model_name": config.model_name,
        "version": version,
        "passed": result.passed,
        # Without a registry there is nowhere to be champion.
        "promoted": promoted,
        "reasons": list(result.reasons),
    }
    write_atomic(job.out / "promotion.json", canonical_json(promotion).encode())
    write_atomic(job.out / CARD, card_with_scores(_released(job), figures, result.reasons).encode())
    job.figures.update(promoted=promotion["promoted"], version=version)


def _promote(
    config: Config,
    job: Job,
    connection: Connection,
    version: ModelVersion,
    over_base: GateResult,
    api: ApiClient | None,
) -> tuple[GateResult, bool]:
    """Hold a version that passed over its base against the champion, and promote it, or request that from the API of
    an installation; return the whole result, and whether it is the champion.
    """
    champion = registry.champion(connection, config.model_name)
    if champion and champion.version == version.version:
        return over_base, True  # promoted by an earlier attempt
    result, approval = over_base, None
    if champion:
        result, approval = _check_over_champion(config, job, connection, champion, over_base)
    if result.passed and api is not None:
        registry.nominate(connection, config.model_name, version.version)
        waiting: dict[str, Any] = {registry.APPROVAL_TAG: registry.WAITING, **result.tags}
        if champion:
            waiting[registry.OPPONENT_TAG] = champion.version
        registry.tag(connection, version, waiting)
        request = request_promotion(api, config.model_name, version.version, f"run {job.run.name}")
        return result.model_copy(update={"reasons": (*result.reasons, request)}), False
    if result.passed:
        try:
            registry.promote(
                connection, config.model_name, version.version, expected=champion.version if champion else None
            )
        except registry.ChampionMoved as moved:
            result = result.model_copy(update={"passed": False, "reasons": (*result.reasons, str(moved))})
    tags: dict[str, Any] = {**result.tags}
    if approval and champion:
        registry.nominate(connection, config.model_name, version.version)
        tags |= {registry.APPROVAL_TAG: approval, registry.OPPONENT_TAG: champion.version}
    registry.tag(connection, version, tags)
    if approval and api is not None:
        request = request_promotion(api, config.model_name, version.version, f"run {job.run.name}")
        result = result.model_copy(update={"passed": False, "reasons": (*result.reasons, request)})
    return result, result.passed


def _check_over_champion(
    config: Config, job: Job, connection: Connection, champion: ModelVersion, over_base: GateResult
) -> tuple[GateResult, str | None]:
    """Return the whole result, and the state of the approval if a person has to decide."""
    board = read_scoreboard(job.inputs["scores"])
    scores = board and board.scores(board.candidate or "")
    tasks: dict[str, str] = {}
    if scores and scores.tasks:
        rows = read_rows(job.inputs["samples"], columns=["sample_id", "task"])
        tasks = {row["sample_id"]: row["task"] or "" for row in rows}
    over_champion = check_over_champion(
        config.gate.of_model(forgetting=False),  # which is measured against the base
        candidate_scores(job.inputs["scores"]),
        read_sample_scores(connection, champion),
        tasks,
        {*scores.tasks} if scores else set(),
    )
    label = f"over the champion, version {champion.version}"
    if over_champion is None:
        reason = (
            f"{label}: not measured, no samples were scored alike for both; it waits for approval: "
            f"rubricworks promote {config.model_name}"
        )
        waiting = {"passed": False, "reasons": (*over_base.reasons, reason)}
        return over_base.model_copy(update=waiting), registry.WAITING
    reasons = (*over_base.reasons, *(f"{label}: {reason}" for reason in over_champion.reasons))
    compared = (finding.model_copy(update={"rule": f"{label}: {finding.rule}"}) for finding in over_champion.findings)
    findings = (*over_base.findings, *compared)
    return GateResult(passed=over_champion.passed, reasons=reasons, findings=findings), None


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

    An adapter is registered in place of the pipeline that it was merged into, with the name and digest of its base.

    Args:
        mlflow_run: id of the stage's MLflow run.
        recipe: recipe of the policy; None for a stage that is run by itself.
        tags: further tags of the version.
    """
    lineage: Mapping[str, str] = {}
    if recipe:
        rows = read_rows(job.inputs["samples"], columns=[*SampleKey._fields])
        lineage = store_lineage(connection, mlflow_run, name, recipe, (SampleKey(**row) for row in rows))
    if genrm := job.inputs.get("genrm"):
        tags |= _register_reward_model(job, connection, mlflow_run, f"{name}-reward-model", genrm)
    folder = _released(job)
    if (base := folder / BASE_FILE).is_file():
        adapted = json.loads(base.read_bytes())
        tags |= {registry.BASE_TAG: adapted["model"], registry.BASE_DIGEST_TAG: adapted["sha256"]}
    if scores := candidate_scores(job.inputs["scores"]):
        tags[SCORES_TAG] = store_sample_scores(connection, mlflow_run, scores)
    return registry.register(
        connection,
        folder,
        name,
        run=mlflow_run,
        prompt=_first_prompt(job.inputs["samples"]),
        card=card_with_scores(folder, figures, result.reasons),
        summary="\n".join(score_lines(figures, result.reasons)),
        tags={
            "run": job.run.name,
            "data_digest": job.made_by["inputs"]["samples"],
            **result.tags,
            **lineage,
            **tags,
            **{f"{name}.{part}": value for name, pair in figures.items() for part, value in pair.items()},
        },
    )


def _register_reward_model(job: Job, connection: Connection, mlflow_run: str, name: str, genrm: Path) -> dict[str, str]:
    """Register the model that rewarded the policy; return the tag by which the policy's version names it."""
    tags = {"run": job.run.name, "trained_by": genrm.name}
    version = registry.register(connection, model_dir(genrm), name, run=mlflow_run, tags=tags, prompt="Score this.")
    return {registry.REWARD_MODEL_TAG: f"{version.name}/{version.version}"}


def _released(job: Job) -> Path:
    """Folder of the input `policy` that is registered: its adapter if it has one, else the whole model."""
    adapter = job.inputs["policy"] / ADAPTER
    return adapter if adapter.is_dir() else model_dir(job.inputs["policy"])


def _first_prompt(samples: Path) -> str:
    """Prompt of one sample, for the example that the registry shows."""
    rows = read_rows(samples, columns=["prompt"]) if (samples / MANIFEST).is_file() else iter(())
    return next((str(row["prompt"]) for row in rows), "Describe the image.")


def check_run(gate: Gate, figures: Figures, job: Job) -> GateResult:
    """Apply a gate to the figures of an evaluation, the alarm of the policy's training, and an audit if there is one.

    Raises:
        UserError: the file of the alarm or of the audit is damaged.
    """
    policy = job.inputs["policy"]
    if audit := job.inputs.get("audit"):
        figures = figures | audit_figures(audit)
    return gate.check(figures, alarm=read_outcome(policy))


def audit_figures(audit: Path) -> Figures:
    """The judge's rate of false positives in the failure mode where it is worst, shown what the training shows it."""
    summary = read_value(audit / SUMMARY_FILE, AuditSummary)
    worst_mode = summary.worst_false_positives("text") if summary else None
    if worst_mode is None:
        return {}
    _, worst = worst_mode
    parts = {part: getattr(worst, part) for part in ("value", "low", "high")}
    return {AUDIT_FIGURE: {**parts, "samples": worst.inputs}}


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
        name = FIGURE_NAMES.get(figure, figure)
        means = {"base": board.mean(board.base, figure), "policy": board.mean(candidate, figure)}
        figures[name] = {model: mean.value if mean else None for model, mean in means.items()}
        if figure != LENGTH:
            figures[f"{name}_gain"] = _interval(board.gain(candidate, figure))
            if figure.startswith("benchmark_"):
                figures.setdefault("benchmark_gain", figures[f"{name}_gain"])
    return figures


def _interval(figure: Interval | None) -> dict[str, float | None]:
    return {part: getattr(figure, part) if figure else None for part in ("value", "low", "high", "samples")}
