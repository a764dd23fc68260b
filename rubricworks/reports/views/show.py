"""Drawing of a stage's view when the stage is done, also when it was done before.

A view is for people and nothing depends on it: it reports missing data, and an error in it fails neither the stage nor
the run.
"""

import logging
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rubricworks.reports.costs import ModelCalls, model_calls
from rubricworks.reports.rendering import render
from rubricworks.reports.run_folder import is_simulated, read_dead_letters, read_ledger
from rubricworks.reports.views.parts import FinishedStage, Table, View

logger = logging.getLogger(__name__)

MAX_BYTES = 1_000_000
"""Larger views lose their cards: the Kubeflow UI reads a page whole, and pictures are most of it."""


def show_stage(
    stage: FinishedStage,
    draw: Callable[[], Callable[[FinishedStage], View]],
    view: str | None = None,
    log_metric: Callable[[str, float], object] | None = None,
) -> None:
    """Write the stage's page to the file `view` and log its figures, each only if requested.

    Args:
        draw: returns the function that draws the page, so that it is imported only when needed.
    """
    if view is None and log_metric is None:
        return
    try:
        content = draw()(stage)
        for name, value in metrics_of(stage, content).items():
            if log_metric:
                log_metric(name, value)
        page = page_of(stage, content)
    except Exception as error:  # whatever it is, the stage is done
        problem = f"The view of {stage.name} could not be made ({type(error).__name__}: {error})"
        logger.warning("%s", problem)
        page = render("view.html", **_frame(stage, View(f"{problem}; the stage itself is done.", "bad")))
    if view:
        _write(Path(view), page)


def _write(path: Path, page: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A response may hold half of a surrogate pair, which UTF-8 cannot write.
        path.write_bytes(page.encode("utf-8", "replace"))
    except OSError as error:
        logger.warning("The view could not be written to %s: %s", path, error.strerror or error)


def metrics_of(stage: FinishedStage, view: View) -> dict[str, float]:
    """The numbers of the view, of the stage's ledger line and of its calls."""
    calls = _calls(stage)
    figures = {
        **_ledger(stage),
        **view.metrics,
        **({"calls": sum(one.calls for one in calls), "dollars": sum(one.cost for one in calls)} if calls else {}),
    }
    # Infinity and NaN are not JSON: a task that logged them would fail.
    return {name: value for name, value in figures.items() if _is_number(value) and math.isfinite(value)}


def page_of(stage: FinishedStage, view: View) -> str:
    """The view as self-contained HTML: no script, nothing fetched."""
    if view.page:
        return view.page
    frame = _frame(
        stage,
        view,
        simulated=is_simulated(stage.run),
        metrics=metrics_of(stage, view),
        tables=[*view.tables, *_failures_and_calls(stage)],
    )
    page = render("view.html", **frame)
    if len(page) <= MAX_BYTES:
        return page
    return render("view.html", **{**frame, "cards": (), "left_out": len(view.cards)})


def _frame(stage: FinishedStage, view: View, **read: Any) -> dict[str, Any]:
    """The template's values; those not in `read` come from no file, so that an error page can always be rendered."""
    return {
        "styles": ("report.css", "tables.css", "audit.css", "view.css"),
        "title": stage.title or stage.name.replace("_", " "),
        "run": stage.run.name,
        "simulated": False,
        "view": view,
        "metrics": {},
        "cards": view.cards,
        "left_out": 0,
        "tables": view.tables,
        **read,
    }


def _failures_and_calls(stage: FinishedStage) -> Iterator[Table]:
    letters = [one for one in read_dead_letters(stage.run) if one.folder.startswith(f"{stage.name}/")]
    if letters:
        columns = ("Asked for", "Why", "How many", "The first")
        rows = [(one.purpose, one.reason, one.count, one.example[:300]) for one in letters]
        yield Table("Dead letters: what no usable answer came to", columns, rows)
    if calls := _calls(stage):
        of_calls = ("Model", "Asked for", "Calls", "From the cache", "Failed", "Tokens", "Dollars")
        yield Table("Calls of models", of_calls, [_call(one) for one in calls])


def _call(one: ModelCalls) -> tuple[str | float, ...]:
    return (
        one.model,
        one.purpose,
        one.calls,
        one.cached,
        one.errors,
        one.prompt_tokens + one.completion_tokens,
        one.cost,
    )


def _calls(stage: FinishedStage) -> list[ModelCalls]:
    from rubricworks.llm.spending import SPENDING_FILE, read_spending

    return [one for one in model_calls(read_spending(stage.run / SPENDING_FILE)) if one.stage == stage.name]


def _ledger(stage: FinishedStage) -> dict[str, Any]:
    lines = [entry for entry in read_ledger(stage.run) if entry["stage"] == stage.name]
    return {name: value for name, value in (lines or [{}])[-1].items() if name != "stage" and _is_number(value)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
