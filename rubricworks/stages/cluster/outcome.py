"""The last task of a run on a cluster, which runs whatever became of the others: how the run ended, in the run's folder
and in MLflow.
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
    """How Kubeflow saw the stages end."""

    state: Literal["SUCCEEDED", "FAILED", "CANCELLED"] = "SUCCEEDED"
    job: str = ""
    """Kubeflow's name of the run."""
    error: str = ""
    """What Kubeflow knows of a failure; the stage itself often knows more."""


def ended(config: str, status: "PipelineTaskFinalStatus") -> str:
    """The stage's configuration with the status that Kubeflow hands to it."""
    state = str(status.state).upper()
    known = {
        "state": state if state in _MLFLOW else "SUCCEEDED" if state.startswith("COMPLETE") else "FAILED",
        "job": status.pipeline_job_resource_name or "",
        "error": status.error_message or "",
    }
    return json.dumps({**json.loads(config), **known})


def run(config: Config, job: Job) -> None:
    good = config.state == "SUCCEEDED"
    error = None if good else _error(job)
    if error:
        write_atomic(job.out / "error.json", (job.run / "error.json").read_bytes())
    spent = read_spending(job.run / SPENDING_FILE)
    record: dict[str, Any] = {
        "state": config.state,
        "job": config.job,
        "stages": sorted(
            path.parent.name for path in job.run.glob(f"*/{DONE}") if path.parent.name not in CLUSTER_TASKS
        ),
        "stage": error["stage"] if error else None,
        "message": error["message"] if error else config.error or (success_message(job.run) if good else None),
        "tokens": sum(row["prompt_tokens"] + row["completion_tokens"] for row in spent),
        "dollars": round(sum(row["cost"] for row in spent), 6),
    }
    text = json.dumps(record, indent=2).encode()
    write_atomic(job.out / "outcome.json", canonical_json(record).encode())
    write_atomic(job.run / "outcome.json", text)
    job.figures.update(stages=len(record["stages"]), tokens=record["tokens"], dollars=record["dollars"])
    tags = {"outcome": config.state.lower(), "kubeflow.run": config.job}
    if record["message"]:
        told = record["message"] if good else f"{record['stage'] or 'Kubeflow'}: {record['message']}"
        tags["message" if good else "error"] = told
    close_pipeline(job.run, _MLFLOW[config.state], tags)


def success_message(run: Path) -> str | None:
    """What a run that ended well came to, where a stage of it says so: a retraining's outcome, or that of the gate."""
    if told := _said(run / "summary.json").get("outcome"):
        return str(told)
    promotion = _said(run / "promote" / "promotion.json")
    if not promotion:
        return None
    name = promotion.get("model_name")
    if promotion.get("promoted"):
        return f"{name} version {promotion.get('version')} is the champion"
    why = "there is no model registry" if promotion.get("passed") else "; ".join(promotion.get("reasons") or ())
    return f"{name} is not promoted: {why}"


def _error(job: Job) -> dict[str, str] | None:
    """What the stage that failed had to say, if it came to say anything."""
    said = _said(job.run / "error.json")
    return {part: str(said[part]) for part in ("stage", "message")} if {"stage", "message"} <= said.keys() else None


def _said(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}
