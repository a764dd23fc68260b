"""Page and figures of a finished stage for the Kubeflow UI: the sections that the stage table names, and its calls.

A page is for people and nothing depends on it: it reports missing data, and an error in it fails neither the stage nor
the run.
"""

import json
import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rubricworks.reports.costs import ModelCalls
from rubricworks.reports.page import Block, Section, render_page, with_file_names, without_cards
from rubricworks.reports.parts import Fold, Part, Table, Text
from rubricworks.reports.record import CALL_COLUMNS, call_row, letters_table
from rubricworks.reports.run_folder import RunFolder, is_simulated

logger = logging.getLogger(__name__)

MAX_BYTES = 1_000_000
"""Larger pages lose their cards: the Kubeflow UI reads a page whole, and pictures are most of it."""
MAX_REPORT_BYTES = 4_000_000
"""Larger reports of runs are not shown."""
_STOOD_IN = "images, teachers and judges"


def show_stage(
    run: RunFolder,
    sections: Callable[[], Sequence[Section]],
    page: str | None = None,
    log_metric: Callable[[str, float], object] | None = None,
    *,
    title: str = "",
) -> None:
    """Write the stage's page to a file and log its figures, each only if requested.

    Args:
        sections: returns the stage's sections, so that they are imported only when needed.
        title: heading of the page; by default the words of the stage's id.
    """
    if page is None and log_metric is None:
        return
    title = title or run.stage.replace("_", " ")
    try:
        blocks = [block for section in sections() if (block := section(run))]
        metrics = metrics_of(run, blocks)
        for name, value in metrics.items():
            if log_metric:
                log_metric(name, value)
        html = _page(run, blocks, metrics, title)
    except Exception as error:  # whatever it is, the stage is done
        problem = f"The view of {run.stage} could not be made ({type(error).__name__}: {error})"
        logger.warning("%s", problem)
        text = Text(f"{problem}; the stage itself is done.", "headline bad")
        html = render_page([Block("problem", parts=[text])], title=title, kicker=_kicker(run), footer="")
    if page:
        _write(Path(page), html)


def report_page(run: RunFolder) -> Block:
    """The run's own report and the numbers of its summary: page of the stages that make reports."""
    file = run.path / "report.html"
    summary = json.loads((run.out / "summary.json").read_bytes())
    metrics = {name: value for name, value in summary.items() if isinstance(value, int | float)}
    if (size := file.stat().st_size) > MAX_REPORT_BYTES:
        where = f"report.html in its folder, has {size / 1e6:.1f} MB"
        return Block("report", parts=[Text(f"The run's page, {where}: too much to show here.")], metrics=metrics)
    return Block("report", metrics=metrics, page=file.read_text(encoding="utf-8"))


def _page(run: RunFolder, blocks: Sequence[Block], metrics: dict[str, float], title: str) -> str:
    """The blocks as self-contained HTML: no script, nothing fetched."""
    if pages := [block.page for block in blocks if block.page]:
        return pages[0]
    alarm = run.alarm(run.stage)
    more = Block("record", parts=list(_record(run, metrics)))
    frame: dict[str, Any] = {
        "title": title,
        "kicker": _kicker(run),
        "stood_in": _STOOD_IN if is_simulated(run.path) else "",
        "alarms": [("", alarm)] if alarm else [],
        "responses": "responses",
        "footer": "Made by Rubricworks from the folder of this stage.",
    }
    blocks = with_file_names(run, blocks)
    page = render_page([*blocks, more], **frame)
    return page if len(page) <= MAX_BYTES else render_page([*without_cards(blocks), more], **frame)


def _kicker(run: RunFolder) -> str:
    return f"Rubricworks · {run.path.name}"


def metrics_of(run: RunFolder, blocks: Sequence[Block]) -> dict[str, float]:
    """The numbers of the blocks, of the stage's ledger line and of its calls."""
    lines = [entry for entry in run.ledger if entry["stage"] == run.stage]
    calls = _calls(run)
    figures = {
        **{name: value for name, value in (lines or [{}])[-1].items() if name != "stage"},
        **{name: value for block in blocks for name, value in block.metrics.items()},
        **({"calls": sum(call.calls for call in calls), "dollars": sum(call.cost for call in calls)} if calls else {}),
    }
    # Infinity and NaN are not JSON: a task that logged them would fail.
    return {
        name: value
        for name, value in figures.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


def _record(run: RunFolder, metrics: dict[str, float]) -> list[Part]:
    """Dead letters and calls of the stage, and all its figures."""
    parts: list[Part] = []
    letters = letters_table(run, f"{run.stage}/")
    if letters.rows:
        parts.append(letters)
    if calls := _calls(run):
        parts.append(Table(CALL_COLUMNS, [call_row(call) for call in calls], "Calls of models"))
    if metrics:
        parts.append(Fold("All figures", [Table(("Figure", "Value"), list(metrics.items()))]))
    return parts


def _calls(run: RunFolder) -> list[ModelCalls]:
    return [call for call in run.calls if call.stage == run.stage]


def _write(file: Path, page: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # A response may hold half of a surrogate pair, which UTF-8 cannot write.
        file.write_bytes(page.encode("utf-8", "replace"))
    except OSError as error:
        logger.warning("The view could not be written to %s: %s", file, error.strerror or error)
