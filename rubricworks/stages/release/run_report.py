"""A run's report: page and summary, in the run's folder and in MLflow."""

from pydantic import BaseModel

from rubricworks.runtime.job import Job
from rubricworks.storage import write_atomic
from rubricworks.tracking import stage_run


def write_report(job: Job, html: str, summary: BaseModel) -> None:
    """Write the page and its summary into the run's folder, and log the page to tracking."""
    figures = summary.model_dump_json(indent=2).encode()
    # A response may contain a lone surrogate, which UTF-8 cannot encode.
    write_atomic(job.run / "report.html", html.encode("utf-8", "replace"))
    write_atomic(job.run / "summary.json", figures)
    write_atomic(job.out / "summary.json", figures)
    with stage_run(job.run, job.stage) as log:
        log.log_artifact(job.run / "report.html")
