"""The findings of a paper's claims as one value, and for people: as text, as CSV, and as one HTML page."""

import csv
import io
import subprocess
import textwrap
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, get_args

from pydantic import BaseModel, ConfigDict

from rubricworks.claims.gates import GateReading
from rubricworks.claims.inference import CONCLUSIVE, Finding, Verdict
from rubricworks.reports.formats import signed, signed_interval
from rubricworks.reports.rendering import render

SIMULATED = (
    "Simulated: teachers, judges and attacks are scripted, with programmed faults; the students and their training are "
    "real. A claim that holds here shows that the mechanism works, not that the paper's number is reproduced. One that "
    "does not hold is reported as it is."
)
RULES = (
    "Claims, margins and seeds were registered before the first run. A difference is paired by seed and sample; seeds "
    "are the independent units of Student's t test, and Holm corrects its p-values over all claims of the paper, on "
    "each side. A claim holds if the difference is significant on the claimed side, does not hold if it is on the "
    "other, and is equivalent if two one-sided tests bound it within the margin. It is incomplete if a registered seed "
    "is missing, and not testable here if a gate of the world fails or its arms cannot be run. Intervals are 95 %, not "
    "corrected."
)
_COLUMNS = """claim source first second metric direction margin programmed seed difference mean low high
p_claimed p_opposite p_equivalent verdict"""
_MARGIN = 0.08
"""Share of the scale's width that is free at each end."""


class ClaimsReport(BaseModel):
    """Content of `claims.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    paper: str
    registration: str
    """Digest of the registration."""
    commit: str | None
    """Last commit of its file; None outside a git checkout."""
    seeds: int
    """Number of seeds that the registration asks for."""
    pilot: bool
    """Fewer seeds were run."""
    settings: tuple[str, ...]
    version: str
    """Version of rubricworks."""
    cpu_seconds: float
    """Of all stored runs."""
    gates: tuple[GateReading, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    def counts(self, *, programmed: bool) -> dict[Verdict, int]:
        verdicts = Counter(finding.verdict for finding in self.findings if finding.claim.programmed == programmed)
        return {verdict: verdicts[verdict] for verdict in get_args(Verdict)}

    @property
    def headline(self) -> str:
        lines = []
        for programmed, name in ((False, "claims"), (True, "claims that follow from a programmed table")):
            counts = self.counts(programmed=programmed)
            if total := sum(counts.values()):
                words = ", ".join(f"{count} {_plural(verdict, count)}" for verdict, count in counts.items() if count)
                conclusive = sum(counts[verdict] for verdict in CONCLUSIVE)
                lines.append(f"{total} {name}: {words} ({conclusive} conclusive)")
        pilot = f"A pilot of fewer than the {self.seeds} registered seeds: no verdicts. " if self.pilot else ""
        return pilot + ". ".join(lines) + "."


def _plural(verdict: Verdict, count: int) -> str:
    if count == 1:
        return verdict
    return {"holds": "hold", "does not hold": "do not hold"}.get(verdict, verdict)


def commit_of(path: Path) -> str | None:
    """Last commit that changed a file; None outside a git checkout, or if the file was changed since."""
    git = ["git", "-C", str(path.parent)]
    try:
        changed = subprocess.run([*git, "status", "--porcelain", "--", path.name], capture_output=True, text=True)
        last = subprocess.run([*git, "log", "-1", "--format=%h", "--", path.name], capture_output=True, text=True)
    except OSError:
        return None
    return None if changed.returncode or changed.stdout.strip() else last.stdout.strip() or None


def claimed_text(finding: Finding) -> str:
    """Differences that the paper claims."""
    margin = f"{finding.margin:g}"
    return {"greater": "above 0", "smaller": "below 0", "equivalent": f"within ±{margin}"}[finding.claim.direction]


def interval_text(finding: Finding) -> str:
    interval = finding.interval
    return "no interval" if interval is None or interval.bounds is None else signed_interval(interval, 3)


def text(report: ClaimsReport) -> str:
    """A line for each gate and claim, at most 100 characters wide."""
    lines = [*textwrap.wrap(SIMULATED, 100), ""]
    lines += [f"registration {report.registration}, commit {report.commit or 'none'}, {report.seeds} seeds", ""]
    for gate in report.gates:
        lines.append(f"  {gate.state:<14}{gate.gate.id:<20}{gate.value_text:<8}{gate.gate.bounds_text}")
    width = max(len(finding.claim.id) for finding in report.findings)
    for source, findings in groupby(report.findings, key=lambda finding: finding.claim.source):
        lines.append(source)
        for finding in findings:
            mean = f"{signed(finding.mean, 3):>7}  {interval_text(finding):<18}"
            lines.append(f"  {finding.verdict:<20}{finding.claim.id:<{width}}  {mean}  {claimed_text(finding)}")
            if finding.reason:
                lines += textwrap.wrap(finding.reason, 100, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return "\n".join([*lines, "", *textwrap.wrap(report.headline, 100)])


def csv_table(report: ClaimsReport) -> str:
    """One row for each claim and seed."""
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    writer.writerow(_COLUMNS.split())
    for finding in report.findings:
        claim = finding.claim
        head = [claim.id, claim.source, *claim.arms, claim.metric, claim.direction, finding.margin, claim.programmed]
        p_values = [finding.p_claimed, finding.p_opposite, finding.p_equivalent]
        tail = [finding.mean, finding.low, finding.high, *p_values, finding.verdict_text]
        writer.writerows([*head, seed, value, *tail] for seed, value in (finding.values or {0: None}).items())
    return rows.getvalue()


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
    claimed: str
    interval: str
    mood: str


def claims_page(report: ClaimsReport) -> str:
    """Render the page."""
    sources = [
        (source, [_row(finding) for finding in findings])
        for source, findings in groupby(report.findings, key=lambda finding: finding.claim.source)
    ]
    return render(
        "claims.html",
        folder=Path(__file__).parent,
        styles=("report.css", "claims.css"),
        title=f"Claims of {report.paper}",
        kicker="Rubricworks claims",
        footer=f"Made by Rubricworks {report.version} from stored results.",
        report=report,
        sources=sources,
        simulated=SIMULATED,
        rules=RULES,
    )


def whisker(finding: Finding) -> Whisker:
    """Place a finding on its scale."""
    values = [value for value in finding.values.values() if value is not None]
    bounds = finding.interval.bounds if finding.interval else None
    ends = [*values, *(bounds or ()), -finding.margin, finding.margin]
    width = max(ends) - min(ends)
    start, width = min(ends) - _MARGIN * width, (1 + 2 * _MARGIN) * width

    def at(value: float) -> float:
        return 100 * (value - start) / width

    claimed = {
        "greater": (at(0), 100.0),
        "smaller": (0.0, at(0)),
        "equivalent": (at(-finding.margin), at(finding.margin)),
    }
    return Whisker(
        dots=[at(value) for value in values],
        mean=None if finding.mean is None else at(finding.mean),
        bounds=(at(bounds[0]), at(bounds[1])) if bounds else None,
        claimed=claimed[finding.claim.direction],
        zero=at(0.0),
    )


def _row(finding: Finding) -> Row:
    mood = {"holds": "good", "does not hold": "bad"}.get(finding.verdict, "open")
    return Row(finding, whisker(finding), claimed_text(finding), interval_text(finding), mood)
