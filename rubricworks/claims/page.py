"""The findings as one HTML page: every seed and the interval of their mean, beside the side that the paper claims."""

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from rubricworks.claims.claim import Finding
from rubricworks.claims.report import RULES, SIMULATED, ClaimsReport, bound_text, interval_text
from rubricworks.reports.rendering import render

_MARGIN = 0.08
"""Share of the scale's width that is free at each end."""


class Whisker(NamedTuple):
    """Geometry of a finding on a scale of its own, in percent of its width."""

    dots: list[float]
    """One for each seed."""
    mean: float | None
    bounds: tuple[float, float] | None
    claimed: tuple[float, float]
    """Ends of the side on which the claim holds."""
    zero: float


class Row(NamedTuple):
    """A finding with its chart and texts."""

    finding: Finding
    whisker: Whisker
    bound: str
    interval: str
    mood: str


def claims_page(report: ClaimsReport) -> str:
    """Render the page."""
    sources = [(source, [_row(one) for one in findings]) for source, findings in _by_source(report.findings)]
    return render(
        "claims.html",
        folder=Path(__file__).parent,
        styles=("report.css", "claims.css"),
        summary={"run": f"Claims of {report.paper}", "simulated": False},
        recipe={},
        alarms=[],
        stages=[{"version": report.version}],
        report=report,
        sources=sources,
        simulated=SIMULATED,
        rules=RULES,
    )


def whisker(finding: Finding) -> Whisker:
    """Place a finding on its scale."""
    claim = finding.claim
    values = [value for value in finding.values.values() if value is not None]
    bounds = finding.interval.bounds if finding.interval else None
    ends = [*values, *(bounds or ()), 0.0, -claim.margin, *([claim.margin] if claim.rule == "within" else [])]
    width = (max(ends) - min(ends)) or 1.0
    start, width = min(ends) - _MARGIN * width, (1 + 2 * _MARGIN) * width

    def at(value: float) -> float:
        return 100 * (value - start) / width

    return Whisker(
        dots=[at(value) for value in values],
        mean=None if finding.mean is None else at(finding.mean),
        bounds=(at(bounds[0]), at(bounds[1])) if bounds else None,
        claimed=(at(-claim.margin), at(claim.margin) if claim.rule == "within" else 100.0),
        zero=at(0.0),
    )


def _row(finding: Finding) -> Row:
    mood = {"holds": "good", "does not hold": "bad", "inconclusive": "open", "not measured": "open"}[finding.verdict]
    return Row(finding, whisker(finding), bound_text(finding.claim), interval_text(finding), mood)


def _by_source(findings: Iterable[Finding]) -> list[tuple[str, list[Finding]]]:
    return [(source, list(group)) for source, group in groupby(findings, key=lambda one: one.claim.source)]
