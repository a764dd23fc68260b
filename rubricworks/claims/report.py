"""The findings of a paper's claims as one value, and for people: as text, as Markdown, and as one HTML page.

The page shows every seed and the interval of their mean, beside the side that the paper claims.
"""

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, get_args

from pydantic import BaseModel, ConfigDict

from rubricworks.claims.arm_table import markdown_row
from rubricworks.claims.claim import Claim, Finding, Verdict
from rubricworks.reports.formats import MINUS, signed, signed_interval
from rubricworks.reports.rendering import render

SIMULATED = (
    "Simulated: teachers, judges and attacks are scripted, with programmed faults; the students and their training are "
    "real. A claim that holds here shows that the mechanism works, not that the paper's number is reproduced. One that "
    "does not hold is reported as it is."
)
RULES = (
    "Each seed gives one number for each claim. A claim holds if the whole 95 % t interval of the mean over seeds is "
    "on the claimed side, does not hold if the whole interval is on the other side, and is inconclusive otherwise, "
    "also if only one seed was run. If a seed has no number the claim is incomplete, and without any it is not "
    "measured. Each claim is judged by itself: of twenty true null differences, one leaves its interval by chance. "
    "Shares are between 0 and 1: 0.01 is one percentage point."
)

_MARGIN = 0.08
"""Share of the scale's width that is free at each end."""


class ClaimsReport(BaseModel):
    """Content of `claims.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    paper: str
    seeds: tuple[int, ...]
    changed: tuple[str, ...]
    """Fields that the runs changed in the recipe, with both values."""
    version: str
    """Version of rubricworks."""
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    """Remarks on this paper's claims."""

    @property
    def counts(self) -> dict[Verdict, int]:
        counts = Counter(finding.verdict for finding in self.findings)
        return {verdict: counts[verdict] for verdict in get_args(Verdict)}

    @property
    def headline(self) -> str:
        counts = self.counts
        not_held = f"{counts['does not hold']} {'does' if counts['does not hold'] == 1 else 'do'} not"
        unknown = "".join(f", {counts[word]} {word}" for word in ("incomplete", "not measured") if counts[word])
        too_few = " One seed has no interval; take two or more." if len(self.seeds) < 2 else ""
        return (
            f"{len(self.findings)} claims over {_seeds(self.seeds)}: {counts['holds']} hold, {not_held}, "
            f"{counts['inconclusive']} inconclusive{unknown}.{too_few}"
        )


def bound_text(claim: Claim) -> str:
    """Values for which the claim holds."""
    if claim.rule == "greater":
        return "above 0"
    if claim.rule == "not_worse":
        return f"{MINUS}{claim.margin:g} or above" if claim.margin else "0 or above"
    return f"within ±{claim.margin:g}"


def interval_text(finding: Finding) -> str:
    interval = finding.interval
    return "no interval" if interval and interval.bounds is None else signed_interval(interval, 3)


def markdown(report: ClaimsReport) -> str:
    """The table with every number, for `claims.md`."""
    lines = [f"# Claims of {report.paper}", "", f"**{report.headline}**", "", f"> {SIMULATED}", ""]
    if report.changed:
        lines += [f"Settings changed in the recipe: {'; '.join(f'`{change}`' for change in report.changed)}.", ""]
    columns = ["Claim", "Source", "Claimed", *(f"Seed {seed}" for seed in report.seeds), "Mean", "95 % interval"]
    lines += [markdown_row([*columns, "Verdict"]), markdown_row(["---"] * (len(columns) + 1))]
    for finding in report.findings:
        claim, values = finding.claim, [signed(finding.values.get(seed), 3) for seed in report.seeds]
        statement = claim.statement + (" *(ours)*" if claim.ours else "")
        interval = [signed(finding.mean, 3), interval_text(finding)]
        cells = [statement, claim.source, bound_text(claim), *values, *interval, f"**{finding.verdict}**"]
        lines.append(markdown_row(cells))
    if missing := _missing(report):
        lines += ["", "Without a number:", "", *(f"- {line}" for line in missing)]
    return "\n".join([*lines, *(line for rule in (RULES, *report.notes) for line in ("", rule)), ""])


def text(report: ClaimsReport) -> str:
    """A line for each claim, at most 100 characters wide."""
    width = max(len(finding.claim.name) for finding in report.findings)
    lines = [*textwrap.wrap(SIMULATED, 100), ""]
    source = ""
    for finding in report.findings:
        claim = finding.claim
        if claim.source != source:
            source = claim.source
            lines.append(source + (" (ours)" if claim.ours else ""))
        mean = f"{signed(finding.mean, 3):>7}  {interval_text(finding):<18}"
        lines.append(f"  {finding.verdict:<14}{claim.name:<{width}}  {mean}  {bound_text(claim)}")
    return "\n".join([*lines, "", report.headline])


def _missing(report: ClaimsReport) -> list[str]:
    return [
        f"{finding.claim.name}, seed {seed}: {finding.notes.get(seed, 'no number')}"
        for finding in report.findings
        for seed, value in finding.values.items()
        if value is None
    ]


def _seeds(seeds: Sequence[int]) -> str:
    return f"{len(seeds)} seed{'s' if len(seeds) != 1 else ''}"


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
    sources = [(source, [_row(finding) for finding in findings]) for source, findings in _by_source(report.findings)]
    return render(
        "claims.html",
        folder=Path(__file__).parent,
        styles=("report.css", "claims.css"),
        title=f"Claims of {report.paper}",
        kicker="Rubricworks claims",
        footer=f"Made by Rubricworks {report.version} from the folders of the runs.",
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
    mood = {"holds": "good", "does not hold": "bad"}.get(finding.verdict, "open")
    return Row(finding, whisker(finding), bound_text(finding.claim), interval_text(finding), mood)


def _by_source(findings: Iterable[Finding]) -> list[tuple[str, list[Finding]]]:
    return [(source, list(group)) for source, group in groupby(findings, key=lambda finding: finding.claim.source)]
