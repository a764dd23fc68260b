"""Write the report of a run: `report.html` and `summary.json` in its folder, and the page in MLflow.

The stage table names the sections of each report; this module serves all of them.
"""

import hashlib
from functools import cached_property

from pydantic import BaseModel, Field

from rubricworks.policy.rewards.measured_rates import AGREEMENT_FILE, agreement_content, parse_agreement
from rubricworks.reports.page import build_report
from rubricworks.reports.run_folder import RunFolder
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.runtime.stage_table import STAGES
from rubricworks.storage import write_atomic
from rubricworks.tracking import stage_run

REPORT_FIELD = "report.agreement"


class Config(StageConfig):
    examples: int = Field(default=12, ge=0)
    """Held-out samples shown with the responses of all models, drawn with the seed."""
    agreement: str | None = Field(default=None, min_length=1, exclude_if=lambda file: file is None)
    """File that `rubricworks agreement --json` wrote of this run's judge, for the page: a path, `s3://bucket/file`, or
    `org/name@COMMIT/file` of a data set of the Hub. By default the one of `policy.reward.noise_correction`, if that
    names one.
    """

    @cached_property
    def agreement_bytes(self) -> bytes | None:
        """The file, fetched once; None if the recipe names none.

        Raises:
            UserError: there is no such file.
            TransientError: the store or the Hub does not answer.
        """
        return agreement_content(self.agreement, REPORT_FIELD) if self.agreement else None

    def versions(self) -> dict[str, str]:
        """Digest of the file; if it changes, the report is rewritten."""
        content = self.agreement_bytes
        return {} if content is None else {"agreement": hashlib.sha256(content).hexdigest()}


def run(config: Config, job: Job) -> None:
    if config.agreement and (content := config.agreement_bytes) is not None:
        # The page reads it beside the report.
        parse_agreement(content, config.agreement, REPORT_FIELD)
        job.out.mkdir(parents=True, exist_ok=True)
        write_atomic(job.out / AGREEMENT_FILE, content)
    folder = RunFolder(job.run, job.stage, examples=config.examples, seed=config.seed, thumbnails=False)
    write_report(job, *build_report(folder, STAGES[job.stage].load_report()))


def write_report(job: Job, html: str, summary: BaseModel) -> None:
    """Write a page and its summary into the run's folder, and log the page to tracking."""
    figures = summary.model_dump_json(indent=2).encode()
    # A response may contain a lone surrogate, which UTF-8 cannot encode.
    write_atomic(job.run / "report.html", html.encode("utf-8", "replace"))
    write_atomic(job.run / "summary.json", figures)
    write_atomic(job.out / "summary.json", figures)
    with stage_run(job.run, job.stage) as log:
        log.log_artifact(job.run / "report.html")
