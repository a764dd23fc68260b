"""The page of a BalCapRL run: its scores before and after, its training, real groups' advantages to play with.

Page and summary stand in the run's own folder, `report.html` and `summary.json`, made from what the other stages left
there.
"""

from pydantic import Field

from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.stages.release.run_report import write_report


class Config(StageConfig):
    examples: int = Field(default=8, ge=0)
    """Held-out images shown with both models' captions and the judge's claims, drawn by the seed."""


def run(config: Config, job: Job) -> None:
    from rubricworks.methods.balcaprl.report.page import build_balcaprl_report

    write_report(job, *build_balcaprl_report(job.run, examples=config.examples, seed=config.seed))
