"""The last task of a run on a cluster, which runs whatever became of the others: how the run ended, in the run's folder
and in MLflow.
"""

import json
from typing import TYPE_CHECKING, Any, Literal

from rubricworks.llm import read_spending
from rubricworks.llm.spending import SPENDING_FILE
from rubricworks.stages.config import StageConfig, canonical_json
from rubricworks.stages.job import DONE, Job
from rubricworks.storage import write_atomic
from rubricworks.tracking import close_pipeline

if TYPE_CHECKING:
    from kfp.dsl import PipelineTaskFinalStatus

EACH_TIME = True
_BESIDE = {"preflight", "check_accelerators", "outcome"}
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
    error = _error(job) if config.state != "SUCCEEDED" else None
    if error:
        write_atomic(job.out / "error.json", (job.run / "error.json").read_bytes())
    spent = read_spending(job.run / SPENDING_FILE)
    record: dict[str, Any] = {
        "state": config.state,
        "job": config.job,
        "stages": sorted(path.parent.name for path in job.run.glob(f"*/{DONE}") if path.parent.name not in _BESIDE),
        "stage": error["stage"] if error else None,
        "message": error["message"] if error else config.error or None,
        "tokens": sum(row["prompt_tokens"] + row["completion_tokens"] for row in spent),
        "dollars": round(sum(row["cost"] for row in spent), 6),
    }
    text = json.dumps(record, indent=2).encode()
    write_atomic(job.out / "outcome.json", canonical_json(record).encode())
    write_atomic(job.run / "outcome.json", text)
    job.figures.update(stages=len(record["stages"]), tokens=record["tokens"], dollars=record["dollars"])
    tags = {"outcome": config.state.lower(), "kubeflow.run": config.job}
    if record["message"]:
        tags["error"] = f"{record['stage'] or 'Kubeflow'}: {record['message']}"
    close_pipeline(job.run, _MLFLOW[config.state], tags)


def _error(job: Job) -> dict[str, str] | None:
    """What the stage that failed had to say, if it came to say anything."""
    try:
        said = json.loads((job.run / "error.json").read_bytes())
        return {"stage": str(said["stage"]), "message": str(said["message"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None
