"""The agreement of raters as text, at most 100 characters wide."""

import textwrap

from rubricworks.grading.comparison import Comparison, GroupAgreement, Rater
from rubricworks.grading.judge_errors import JudgeErrors
from rubricworks.metrics import Agreement, Interval
from rubricworks.reports.formats import percent, percent_interval

_WIDTH = 100
_TITLE = 30
_MISSING = "-"
_MAX_CREDITS = 8

LEGEND = """\
accuracy: share of equal credits. kappa: Cohen's. alpha: Krippendorff's, interval level.
[low, high]: 95 % bootstrap over responses, Wilson's for an accuracy of 0 or 1; left out where too
few responses differ to say it.
-: not defined, because every credit is the same one.
Shares of errors, and of what is met, are prediction-powered: 95 %, if the labelled items are a
random draw of those that the judge judged."""


def rater_text(rater: Rater, width: int) -> str:
    """The rater's name, source and amount of data."""
    items = "labelled items" if rater.name == "people" else "verdicts"
    amount = f"{rater.items:,} {items} on {rater.responses:,} responses"
    notes = (
        [f"{sum(rater.left_out.values()):,} without a credit ({_reasons(rater.left_out)})"] if rater.left_out else []
    )
    if rater.repeated:
        notes.append(f"{rater.repeated:,} given again, of which the first counts")
    return _wrapped(f"{rater.name:<{width}}  {rater.source}: {', '.join([amount, *notes])}", indent=width + 2)


def group_text(group: GroupAgreement) -> str:
    """The agreement of several raters in one number."""
    alpha = _estimate(group.alpha_interval).strip()
    names = textwrap.shorten(", ".join(group.raters), 50, placeholder=" …")
    text = f"{len(group.raters)} together ({names}): alpha {alpha} on {group.units:,} items that two or more rated"
    return _wrapped(text, indent=2)


def errors_text(errors: JudgeErrors) -> str:
    """The judge's error rates in one sentence."""
    parts = [
        f"{verb} {percent(rate.value)} ({percent_interval(rate)}) of what people {people}"
        for verb, rate, people in (
            ("credits", errors.false_positive, "do not credit"),
            ("misses", errors.false_negative, "credit"),
        )
        if rate
    ]
    text = (
        f"{errors.judge} {' and '.join(parts)}. It credits {percent(errors.judged_met)} of all it judged; by "
        f"{errors.labelled:,} labels, {percent(errors.truly_met.value)} ({percent_interval(errors.truly_met)}) are met."
    )
    return _wrapped(text, indent=2)


def comparison_text(comparison: Comparison, note: str) -> str:
    """A heading, the counts, one row per criterion, and the confusion matrix of credits."""
    heading = _wrapped(f"{comparison.first} and {comparison.second}")
    lines = [heading, "=" * max(map(len, heading.splitlines()))]
    if note:
        return "\n".join([*lines, _wrapped(f"Nothing to compare: {note}.")])
    lines.append(_wrapped(_counts(comparison)))
    if comparison.overall.units:
        lines += ["", *_rows(comparison), "", *_confusion(comparison)]
    return "\n".join(lines)


def _counts(comparison: Comparison) -> str:
    parts = [f"{comparison.overall.units:,} of {comparison.in_common:,} items in common compared"]
    sides = (
        (comparison.first, comparison.left_out_first, comparison.only_first),
        (comparison.second, comparison.left_out_second, comparison.only_second),
    )
    for name, uncredited, _ in sides:
        if uncredited:
            parts.append(f"{sum(uncredited.values()):,} without a credit from {name} ({_reasons(uncredited)})")
    for name, _, alone in sides:
        if alone:
            parts.append(f"{alone:,} rated by {name} alone")
    return "; ".join(parts) + "."


def _rows(comparison: Comparison) -> list[str]:
    lines = [f"{'criterion':<{_TITLE}} {'n':>6}  {'accuracy':<17}   {'kappa':<19}   {'alpha':<19}".rstrip()]
    lines += [_row(_shortened(one.criteria[0]), one.agreement) for one in comparison.criteria]
    if others := comparison.others:
        count = len(others.criteria)
        lines.append(_row(f"others ({count:,} {'criterion' if count == 1 else 'criteria'})", others.agreement))
    return [*lines, _row("all", comparison.overall)]


def _shortened(title: str) -> str:
    """The title's beginning and a longer part of its end, where titles from one template differ."""
    words = " ".join(title.split())
    return words if len(words) <= _TITLE else f"{words[:11].rstrip()}…{words[-(_TITLE - 12) :].lstrip()}"


def _row(title: str, agreement: Agreement) -> str:
    accuracy = _estimate(agreement.accuracy).lstrip()
    numbers = f"{accuracy:<17}  {_estimate(agreement.kappa):<20}  {_estimate(agreement.alpha_interval)}"
    return f"{title:<{_TITLE}} {agreement.units:>6,}  {numbers}".rstrip()


def _estimate(estimate: Interval | None) -> str:
    """The estimate in at most 20 characters, the value in the first five, so that a minus shifts nothing."""
    if estimate is None:
        return f"{_MISSING:>5}"
    if estimate.bounds is None:
        return _number(estimate.value)
    low, high = (_number(bound).strip() for bound in estimate.bounds)
    return f"{_number(estimate.value)} [{low}, {high}]"


def _number(value: float) -> str:
    return f"{round(value, 2) + 0.0:5.2f}"


def _confusion(comparison: Comparison) -> list[str]:
    credits = sorted({credit for cell in comparison.confusion for credit in (cell.first, cell.second)})
    if len(credits) > _MAX_CREDITS:
        return [f"{len(credits):,} different credits: which met which is in the file of --json"]
    counts = {(cell.first, cell.second): cell.count for cell in comparison.confusion}
    lines = [_wrapped(f"rows: {comparison.first}; columns: {comparison.second}")]
    lines.append(" " * 8 + "".join(f"{credit:>9.4g}" for credit in credits))
    for first in credits:
        lines.append(f"{first:>8.4g}" + "".join(f"{counts.get((first, second), 0):>9,}" for second in credits))
    return lines


def _reasons(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in counts.items())


def _wrapped(text: str, *, indent: int = 0) -> str:
    """The text in lines of at most the width; a path is never broken, so that it can be copied."""
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False,
        replace_whitespace=False,
    )  # fmt: skip
