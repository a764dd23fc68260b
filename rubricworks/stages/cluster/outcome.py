"""Exit task of a run on a cluster: record how the run ended in its folder and in MLflow.

It runs whether the other tasks succeeded, failed or were cancelled.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rubricworks.llm import read_spending
from rubricworks.llm.spending import SPENDING_FILE
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import DONE, Job
from rubricworks.runtime.stage_table import CLUSTER_TASKS
from rubricworks.storage import write_atomic
from rubricworks.tracking import close_pipeline

if TYPE_CHECKING:
    from kfp.dsl import PipelineTaskFinalStatus

_MLFLOW = {"SUCCEEDED": "FINISHED", "FAILED": "FAILED", "CANCELLED": "KILLED"}


class Config(StageConfig):
    """Kubeflow's final status of the run."""

    state: Literal["SUCCEEDED", "FAILED", "CANCELLED"] = "SUCCEEDED"
    job: str = ""
    """Kubeflow's name of the run."""
    error: str = ""
    """Kubeflow's message for a failure; the stage's own `error.json` often says more."""


def with_final_status(config: str, status: "PipelineTaskFinalStatus") -> str:
    """Return the stage's configuration as JSON with the final status that Kubeflow passes to the exit task."""
    state = str(status.state).upper()
    fields = {
        "state": state if state in _MLFLOW else "SUCCEEDED" if state.startswith("COMPLETE") else "FAILED",
        "job": status.pipeline_job_resource_name or "",
        "error": status.error_message or "",
    }
    return json.dumps({**json.loads(config), **fields})


def run(config: Config, job: Job) -> None:
    succeeded = config.state == "SUCCEEDED"
    error = None if succeeded else _stage_error(job)
    if error:
        write_atomic(job.out / "error.json", (job.run / "error.json").read_bytes())
    spending = read_spending(job.run / SPENDING_FILE)
    record: dict[str, Any] = {
        "state": config.state,
        "job": config.job,
        "stages": sorted(
            path.parent.name for path in job.run.glob(f"*/{DONE}") if path.parent.name not in CLUSTER_TASKS
        ),
        "stage": error["stage"] if error else None,
        "message": error["message"] if error else config.error or (success_message(job.run) if succeeded else None),
        "tokens": sum(row["prompt_tokens"] + row["completion_tokens"] for row in spending),
        "dollars": round(sum(row["cost"] for row in spending), 6),
    }
    text = json.dumps(record, indent=2).encode()
    write_atomic(job.out / "outcome.json", canonical_json(record).encode())
    write_atomic(job.run / "outcome.json", text)
    job.figures.update(stages=len(record["stages"]), tokens=record["tokens"], dollars=record["dollars"])
    tags = {"outcome": config.state.lower(), "kubeflow.run": config.job}
    if record["message"]:
        message = record["message"] if succeeded else f"{record['stage'] or 'Kubeflow'}: {record['message']}"
        tags["message" if succeeded else "error"] = message
    close_pipeline(job.run, _MLFLOW[config.state], tags)


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
    """Return the failed stage and its message from the run's `error.json`; None if the stage wrote none."""
    error = _read_object(job.run / "error.json")
    return {part: str(error[part]) for part in ("stage", "message")} if {"stage", "message"} <= error.keys() else None


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
