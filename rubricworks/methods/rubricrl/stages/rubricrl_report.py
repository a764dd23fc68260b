"""Write the report of a RubricRL run: `report.html` and `summary.json` in the run's folder."""

from pydantic import Field

from rubricworks.methods.rubricrl.report.page import build_report
from rubricworks.runtime.job import Job
from rubricworks.stages.release.judge_trust import ReportConfig, keep_agreement
from rubricworks.stages.release.run_report import write_report


class Config(ReportConfig):
    images: int = Field(default=24, ge=0)
    """Held-out prompts shown with both models' images, drawn with the seed."""


def run(config: Config, job: Job) -> None:
    keep_agreement(config, job)
    write_report(job, *build_report(job.run, images=config.images, seed=config.seed))
