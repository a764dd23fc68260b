"""The page that shows what ran and what came of it, and the same in a few numbers.

Both stand in the run's own folder, `report.html` and `summary.json`, made from what the other stages left there.
"""

from pydantic import Field

from rubricworks.methods.rubicap.report.page import build_report
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.stages.release.run_report import write_report


class Config(StageConfig):
    images: int = Field(default=12, ge=0)
    """Held-out images shown with both models' captions, drawn by the seed."""


def run(config: Config, job: Job) -> None:
    write_report(job, *build_report(job.run, images=config.images, seed=config.seed))
