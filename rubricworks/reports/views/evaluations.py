"""Views of the stages that measure and decide: captions before and after, answers, audits, the gate, the run's page.

What the page of one pipeline is made of is loaded by the view that shows it.
"""

import json

from rubricworks.reports.headline import promotion_sentence
from rubricworks.reports.run_folder import read_promotion
from rubricworks.reports.views.parts import (
    FinishedStage,
    Table,
    View,
)

MAX_PAGE_BYTES = 4_000_000
"""A run's page that is larger is not shown in the Kubeflow UI, which reads it whole."""


def promoted(stage: FinishedStage) -> View:
    """Of `promote`: what the gate said."""
    promotion = read_promotion(stage.run)
    said = promotion_sentence(promotion)
    if promotion is None:
        return View(said.text, said.mood)
    return View(
        sentence=said.text,
        mood=said.mood,
        metrics={"gate_passed": float(promotion.passed), "promoted": float(promotion.promoted)},
        tables=[Table("The gate", ("What it looked at",), [(reason,) for reason in promotion.reasons])],
    )


def reported(stage: FinishedStage) -> View:
    """Of the reports: the run's page itself, and the numbers of its summary."""
    page = stage.run / "report.html"
    summary = json.loads((stage.out / "summary.json").read_bytes())
    metrics = {name: value for name, value in summary.items() if isinstance(value, int | float)}
    if (size := page.stat().st_size) > MAX_PAGE_BYTES:
        where = f"report.html in its folder, has {size / 1e6:.1f} MB"
        return View(f"The run's page, {where}: too much to show here.", metrics=metrics)
    return View("", metrics=metrics, page=page.read_text(encoding="utf-8"))
