"""Makes a run's report and reads the page back."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

from rubricworks.runtime.job import Job
from rubricworks.runtime.stage_table import STAGES


def write_report(run: Path, stage: str = "report", **config: int) -> tuple[str, dict]:
    """The page and the summary that the stage writes."""
    run.mkdir(parents=True, exist_ok=True)
    module = STAGES[stage].load()
    job = Job(stage=stage, run=run, out=run / stage, inputs={}, made_by={})
    module.run(module.Config(**config), job)
    assert (job.out / "summary.json").read_bytes() == (run / "summary.json").read_bytes()
    return (run / "report.html").read_text(), json.loads((run / "summary.json").read_text())


def write_rlr3_report(run: Path, **config: int) -> tuple[str, dict]:
    """The same of an RLR³ run."""
    return write_report(run, "rlr3_report", **config)


def write_balcaprl_report(run: Path, **config: int) -> tuple[str, dict]:
    """The same of a BalCapRL run."""
    return write_report(run, "balcaprl_report", **config)


class Page(HTMLParser):
    """Tags with their attributes, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", " ".join(Page(html).words))
