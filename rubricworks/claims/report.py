"""The findings of a paper's claims as one value, and as Markdown and text for people."""

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import get_args

from pydantic import BaseModel, ConfigDict

from rubricworks.claims.claim import Claim, Finding, Verdict
from rubricworks.reports.formats import MINUS, signed, signed_interval

SIMULATED = (
    "Simulated: teachers, judges and attacks are scripted, with programmed faults; the students and their training are "
    "real. A claim that holds here shows that the mechanism works, not that the paper's number is reproduced. One that "
    "does not hold is reported as it is."
)
RULES = (
    "Each seed gives one number for each claim. A claim holds if the whole 95 % t interval of the mean over seeds is "
    "on the claimed side, does not hold if the whole interval is on the other side, and is inconclusive otherwise, "
    "also if only one seed has a number; without any it is not measured. Each claim is judged by itself: of twenty "
    "true null differences, one leaves its interval by chance. Shares are between 0 and 1: 0.01 is one percentage "
    "point."
)


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
        counts = Counter(one.verdict for one in self.findings)
        return {verdict: counts[verdict] for verdict in get_args(Verdict)}

    @property
    def headline(self) -> str:
        counts = self.counts
        not_held = f"{counts['does not hold']} {'does' if counts['does not hold'] == 1 else 'do'} not"
        unknown = f", {counts['not measured']} not measured" if counts["not measured"] else ""
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
        lines += [f"Settings changed in the recipe: {'; '.join(f'`{one}`' for one in report.changed)}.", ""]
    columns = ["Claim", "Source", "Claimed", *(f"Seed {seed}" for seed in report.seeds), "Mean", "95 % interval"]
    lines += [_line([*columns, "Verdict"]), _line(["---"] * (len(columns) + 1))]
    for one in report.findings:
        statement = one.claim.statement + (" *(ours)*" if one.claim.ours else "")
        values = [signed(one.values.get(seed), 3) for seed in report.seeds]
        cells = [statement, one.claim.source, bound_text(one.claim), *values, signed(one.mean, 3), interval_text(one)]
        lines.append(_line([*cells, f"**{one.verdict}**"]))
    if missing := _missing(report):
        lines += ["", "Without a number:", "", *(f"- {one}" for one in missing)]
    return "\n".join([*lines, *(line for rule in (RULES, *report.notes) for line in ("", rule)), ""])


def text(report: ClaimsReport) -> str:
    """A line for each claim, at most 100 characters wide."""
    width = max(len(one.claim.name) for one in report.findings)
    lines = [*textwrap.wrap(SIMULATED, 100), ""]
    source = ""
    for one in report.findings:
        if one.claim.source != source:
            source = one.claim.source
            lines.append(source + (" (ours)" if one.claim.ours else ""))
        mean = f"{signed(one.mean, 3):>7}  {interval_text(one):<18}"
        lines.append(f"  {one.verdict:<14}{one.claim.name:<{width}}  {mean}  {bound_text(one.claim)}")
    return "\n".join([*lines, "", report.headline])


def _missing(report: ClaimsReport) -> list[str]:
    return [
        f"{one.claim.name}, seed {seed}: {one.notes.get(seed, 'no number')}"
        for one in report.findings
        for seed, value in one.values.items()
        if value is None
    ]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _seeds(seeds: Sequence[int]) -> str:
    return f"{len(seeds)} seed{'s' if len(seeds) != 1 else ''}"
