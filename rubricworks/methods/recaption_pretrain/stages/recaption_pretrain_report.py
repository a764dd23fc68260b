"""Write the report of a recaptioning run: `report.html` and `summary.json` in the run's folder."""

from pydantic import Field

from rubricworks.methods.recaption_pretrain.report.page import build_report
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.stages.release.run_report import write_report


class Config(StageConfig):
    images: int = Field(default=12, ge=0)
    """Images shown with both captioners' captions, drawn with the seed."""


def run(config: Config, job: Job) -> None:
    write_report(job, *build_report(job.run, images=config.images, seed=config.seed))
