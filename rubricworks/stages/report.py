"""The page that shows what ran and what came of it, and the same in a few numbers.

Both stand in the run's own folder, `report.html` and `summary.json`, made from what the other stages left there.
"""

from pydantic import BaseModel, Field

from rubricworks.reports.page import build_report
from rubricworks.stages.config import StageConfig
from rubricworks.stages.job import Job
from rubricworks.storage import write_atomic
from rubricworks.tracking import stage_run


class Config(StageConfig):
    images: int = Field(default=12, ge=0)
    """Held-out images shown with both models' captions, drawn by the seed."""


def run(config: Config, job: Job) -> None:
    keep_page(job, *build_report(job.run, images=config.images, seed=config.seed))


def keep_page(job: Job, html: str, summary: BaseModel) -> None:
    """Write a page and its numbers into the run's folder, and hand the page to tracking."""
    figures = summary.model_dump_json(indent=2).encode()
    # A response may hold half of a surrogate pair, which UTF-8 cannot write.
    write_atomic(job.run / "report.html", html.encode("utf-8", "replace"))
    write_atomic(job.run / "summary.json", figures)
    write_atomic(job.out / "summary.json", figures)
    with stage_run(job.run, job.stage) as log:
        log.log_artifact(job.run / "report.html")
