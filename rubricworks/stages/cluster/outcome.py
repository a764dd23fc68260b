"""Exit task of a run on a cluster: record how the run ended in its folder and in MLflow.

It runs whether the other tasks succeeded, failed or were cancelled. The end is read from the run's folder: the stages
that are done, the error of one that is not, the summary of the stage that ends a branch. Kubeflow's own word is no
measure: backends up to 2.17 say RUNNING of a group in which a branch was skipped, and 2.16 of any with branches.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rubricworks.llm import read_spending
from rubricworks.llm.spending import SPENDING_FILE
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import DONE, MADE_FROM, Job
from rubricworks.runtime.serving.stage_models import stop_served_models
from rubricworks.runtime.stage_table import CLUSTER_TASKS, STAGES
from rubricworks.storage import write_atomic
from rubricworks.tracking import close_pipeline

if TYPE_CHECKING:
    from kfp.dsl import PipelineTaskFinalStatus

State = Literal["SUCCEEDED", "FAILED", "CANCELLED"]
_MLFLOW: dict[State, str] = {"SUCCEEDED": "FINISHED", "FAILED": "FAILED", "CANCELLED": "KILLED"}


class Config(StageConfig):
    """The stages that a run must finish, and Kubeflow's final status of it."""

    expected: tuple[str, ...] = ()
    """Stages that every run of the pipeline finishes."""
    branches: bool = False
    """The pipeline has branches; the stage that decides to take none, or that ends one, writes `summary.json`."""
    cancelled: bool = False
    """Kubeflow says that the run was cancelled."""
    job: str = ""
    """Kubeflow's name of the run."""
    error: str = ""
    """Kubeflow's message for a failure; the stage's own `error.json` often says more."""


def with_final_status(config: str, pipeline: str, status: "PipelineTaskFinalStatus") -> str:
    """Return the stage's configuration as JSON, extended with the exit task's fields.

    Args:
        pipeline: JSON of the fields `expected` and `branches`.
    """
    fields = {
        "cancelled": str(status.state).upper() in ("CANCELLED", "CANCELED"),
        "job": status.pipeline_job_resource_name or "",
        "error": status.error_message or "",
    }
    return json.dumps({**json.loads(config), **json.loads(pipeline), **fields})


def run(config: Config, job: Job) -> None:
    stop_served_models(job.work.run if job.work else str(job.run))
    error = _stage_error(job)
    unfinished = _unfinished_stages(config, job.run)
    state: State = "FAILED" if error or unfinished else "SUCCEEDED"
    if config.cancelled and state == "FAILED":
        state = "CANCELLED"
    succeeded = state == "SUCCEEDED"
    if error:
        write_atomic(job.out / "error.json", (job.run / "error.json").read_bytes())
    spending = read_spending(job.run / SPENDING_FILE)
    record: dict[str, Any] = {
        "state": state,
        "job": config.job,
        "stages": _finished_stages(job.run),
        "stage": error["stage"] if error else None,
        "message": error["message"]
        if error
        else success_message(job.run)
        if succeeded
        else config.error or f"ended without a word of its own: {', '.join(unfinished)}",
        "tokens": sum(row["prompt_tokens"] + row["completion_tokens"] for row in spending),
        "dollars": round(sum(row["cost"] for row in spending), 6),
    }
    text = json.dumps(record, indent=2).encode()
    write_atomic(job.out / "outcome.json", canonical_json(record).encode())
    write_atomic(job.run / "outcome.json", text)
    job.figures.update(stages=len(record["stages"]), tokens=record["tokens"], dollars=record["dollars"])
    tags = {"outcome": state.lower(), "kubeflow.run": config.job}
    if record["message"]:
        message = record["message"] if succeeded else f"{record['stage'] or 'Kubeflow'}: {record['message']}"
        tags["message" if succeeded else "error"] = message
    close_pipeline(job.run, _MLFLOW[state], tags)


def _finished_stages(run: Path) -> list[str]:
    return sorted(path.parent.name for path in run.glob(f"*/{DONE}") if path.parent.name not in CLUSTER_TASKS)


def _unfinished_stages(config: Config, run: Path) -> list[str]:
    """Return the stages that the run should have finished and has not; empty if it ended well."""
    finished = {*_finished_stages(run)}
    started = {path.parent.name for path in run.glob(f"*/{MADE_FROM}")} - CLUSTER_TASKS
    unfinished = sorted({*config.expected, *started} - finished)
    if not unfinished and config.branches and not (run / "summary.json").is_file():
        return ["the branch that the run took"]
    return unfinished


def success_message(run: Path) -> str | None:
    """Return the result of a successful run: a retraining's outcome or the gate's decision; None if it has neither."""
    if outcome := _read_object(run / "summary.json").get("outcome"):
        return str(outcome)
    promotion = _read_object(run / "promote" / "promotion.json")
    if not promotion:
        return None
    name = promotion.get("model_name")
    if promotion.get("promoted"):
        return f"{name} version {promotion.get('version')} is the champion"
    reason = "there is no model registry" if promotion.get("passed") else "; ".join(promotion.get("reasons") or ())
    return f"{name} is not promoted: {reason}"


def _stage_error(job: Job) -> dict[str, str] | None:
    """Return the failed stage and its message from the run's `error.json`.

    None if no stage wrote one, or if a later attempt of the stage finished it.
    """
    error = _read_object(job.run / "error.json")
    if not {"stage", "message"} <= error.keys():
        return None
    stage = str(error["stage"])
    if (job.run / stage / DONE).exists() and not (stage in STAGES and STAGES[stage].always_runs):
        return None
    return {"stage": stage, "message": str(error["message"])}


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
