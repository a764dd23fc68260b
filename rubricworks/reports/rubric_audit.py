"""The audit of a set of rubrics as text and as one HTML page with the worst rubrics."""

from collections.abc import Mapping

from rubricworks.data.rubric_sets import RubricEntry
from rubricworks.evaluation.rubric_audit import CriterionFlag, RubricAudit, RubricFinding
from rubricworks.reports.formats import interval, number, percent, percent_interval
from rubricworks.reports.rendering import render

FLAGS = {
    "presence only": "naming everything at random keeps the reward: add criteria that inventions fail",
    "not about it": "another sample's response does nearly as well: ask for what this sample has",
    "indifferent": "half the response does nearly as well: ask for the rest of it",
    "always met": "any text meets it: drop it, or ask for more",
    "never met": "no response of the sample meets it: check that it can be met, and is judged",
    "contradicts": "it and another one cannot both be met",
    "overlaps": "it counts what another one counts already",
    "compound": "it joins several assertions: split it",
    "leaks": "its text states its own reference",
    "parroted": "saying that it is done meets it: ask for what is to be said",
}
"""Flag → advice for the rubric's author."""
_SHOWN = 20


def audit_text(audit: RubricAudit) -> str:
    """Figures of an audit, a line each."""
    lines = [
        f"{len(audit.findings)} rubrics with {audit.criteria} criteria in {audit.calls} gradings by {audit.judge}",
        f"flagged: {percent(audit.flagged.value)} of the rubrics ({percent_interval(audit.flagged)})",
        f"gap between the best response and the best-rewarded bad one: {_gap(audit)}",
        *(f"  {name:<14} {count:>5} rubrics  {FLAGS[name]}" for name, count in audit.by_flag.items()),
        f"verdicts that change when the criteria are listed in reverse: {percent(audit.order_changes)}",
        f"rubrics in which the judge credits what no response can meet: {percent(audit.impossible_credited)}",
    ]
    if audit.unjudged:
        lines.append(f"probes that could not be judged, and count in no flag: {audit.unjudged}")
    return "\n".join(lines)


def audit_page(audit: RubricAudit, entries: Mapping[str, RubricEntry], *, title: str = "") -> str:
    """The page.

    Args:
        entries: the rubrics by sample.
        title: a description of the rubrics.
    """
    worst = [
        (finding, [(one.weight, one.criterion, _flags_of(finding, one.criterion)) for one in entry.rubric.criteria])
        for finding in audit.worst[:_SHOWN]
        for entry in [entries[finding.sample_id]]
    ]
    return render(
        "rubric_audit.html",
        audit=audit,
        title=title,
        gap=_gap(audit),
        meanings=FLAGS,
        worst=worst,
        styles=("report.css", "tables.css"),
    )


def _flags_of(finding: RubricFinding, title: str) -> list[CriterionFlag]:
    return [flag for flag in finding.flags if flag.criterion == title]


def _gap(audit: RubricAudit) -> str:
    return f"{number(audit.gap.value if audit.gap else None)} ({interval(audit.gap)})"
