"""What the Kubeflow UI shows of a finished stage: a page, and a few figures.

A view is for people and nothing depends on it: what is missing is said on it, and one that cannot be made spoils
neither the stage nor the run.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rubricworks.reports.rendering import render
from rubricworks.reports.run_folder import read_ledger

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FinishedStage:
    """Where what a stage read and made lies on this machine."""

    name: str
    out: Path
    run: Path
    inputs: Mapping[str, Path]
    """Input → the output folder of the stage that made it."""


def show_stage(
    stage: FinishedStage, view: str | None = None, log_metric: Callable[[str, float], object] | None = None
) -> None:
    """Write the stage's page to the file `view` and tell its figures; neither where none is asked for."""
    try:
        if log_metric:
            for name, value in stage_metrics(stage).items():
                log_metric(name, value)
        if view:
            path = Path(view)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(stage_view(stage), encoding="utf-8")
    except Exception as error:  # whatever it is, the stage is done
        log.warning("the view of %s could not be made: %s: %s", stage.name, type(error).__name__, error)


def stage_view(stage: FinishedStage) -> str:
    """The page of a finished stage as HTML with everything inside."""
    return render("view.html", title=stage.name.replace("_", " "), figures=stage_metrics(stage))


def stage_metrics(stage: FinishedStage) -> dict[str, float]:
    """The stage's figures by name: what it said of itself in the ledger."""
    said = [entry for entry in read_ledger(stage.run) if entry["stage"] == stage.name]
    return {
        name: value
        for name, value in (said or [{}])[-1].items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
