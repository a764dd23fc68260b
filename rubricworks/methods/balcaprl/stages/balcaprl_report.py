"""Write the report of a BalCapRL run: `report.html` and `summary.json` in the run's folder.

The page shows the scores before and after training, the training curves, and an interactive viewer of the advantages of
real groups.
"""

from pydantic import Field

from rubricworks.runtime.job import Job
from rubricworks.stages.release.judge_trust import ReportConfig, keep_agreement
from rubricworks.stages.release.run_report import write_report


class Config(ReportConfig):
    examples: int = Field(default=8, ge=0)
    """Held-out images shown with both models' captions and the judge's claims, drawn with the seed."""


def run(config: Config, job: Job) -> None:
    from rubricworks.methods.balcaprl.report.page import build_balcaprl_report

    keep_agreement(config, job)
    write_report(job, *build_balcaprl_report(job.run, examples=config.examples, seed=config.seed))
