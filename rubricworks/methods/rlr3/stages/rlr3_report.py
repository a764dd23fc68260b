"""Write the report of an RLR³ run, with the paper's Tables 1 to 5 and Figure 2 for this run.

The files are `report.html` and `summary.json` in the run's folder.
"""

from pydantic import Field

from rubricworks.runtime.job import Job
from rubricworks.stages.release.judge_trust import ReportConfig, keep_agreement
from rubricworks.stages.release.run_report import write_report


class Config(ReportConfig):
    examples: int = Field(default=8, ge=0)
    """Held-out questions shown with the answers of all models, drawn with the seed."""


def run(config: Config, job: Job) -> None:
    from rubricworks.methods.rlr3.report.page import build_rlr3_report

    keep_agreement(config, job)
    write_report(job, *build_rlr3_report(job.run, examples=config.examples, seed=config.seed))
