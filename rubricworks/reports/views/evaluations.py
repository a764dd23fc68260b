"""Views of the stages that end a run: the gate and the run's page."""

import json

from rubricworks.reports.headline import promotion_sentence
from rubricworks.reports.run_folder import read_promotion
from rubricworks.reports.views.parts import FinishedStage, Table, View

MAX_PAGE_BYTES = 4_000_000
"""Larger run pages are left out, because the Kubeflow UI reads a page whole."""


def promotion(stage: FinishedStage) -> View:
    """The view of `promote`: the gate's decision and reasons."""
    decision = read_promotion(stage.run)
    headline = promotion_sentence(decision)
    if decision is None:
        return View(headline.text, headline.mood)
    return View(
        sentence=headline.text,
        mood=headline.mood,
        metrics={"gate_passed": float(decision.passed), "promoted": float(decision.promoted)},
        tables=[Table("The gate", ("What it looked at",), [(reason,) for reason in decision.reasons])],
    )


def run_page(stage: FinishedStage) -> View:
    """The view of the report stages: the run's page itself, and the numbers of its summary."""
    page = stage.run / "report.html"
    summary = json.loads((stage.out / "summary.json").read_bytes())
    metrics = {name: value for name, value in summary.items() if isinstance(value, int | float)}
    if (size := page.stat().st_size) > MAX_PAGE_BYTES:
        where = f"report.html in its folder, has {size / 1e6:.1f} MB"
        return View(f"The run's page, {where}: too much to show here.", metrics=metrics)
    return View("", metrics=metrics, page=page.read_text(encoding="utf-8"))
