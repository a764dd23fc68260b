"""The agreement of raters as text, at most 100 characters wide."""

import textwrap

from rubricworks.grading.agreement.comparison import Comparison, GroupAgreement, Rater
from rubricworks.grading.agreement.judge_errors import JudgeErrors
from rubricworks.grading.agreement.judge_probe import JudgeProbe, ResponsePrice
from rubricworks.grading.agreement.report import JudgeIdentity
from rubricworks.llm.identity import PinnedEntry
from rubricworks.metrics import Agreement, Interval
from rubricworks.reports.formats import dollars, percent, percent_interval

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


def weights_text(errors: JudgeErrors) -> str:
    """The judge's error rates by weight, a line each."""
    lines = [
        f"  weight {rates.weight:g}: credits {_share(rates.false_positive)} of what people do not, misses "
        f"{_share(rates.false_negative)} of what they do, by {rates.labelled:,} labels"
        for rates in errors.by_weight
    ]
    return "\n".join(_wrapped(line, indent=4) for line in lines)


def identity_text(identity: JudgeIdentity) -> str:
    """The models that a judge's verdicts are by, as their answers state them."""
    return _wrapped(f"{identity.rater} answers as {'; '.join(map(_entry, identity.entries))}", indent=2)


def _entry(entry: PinnedEntry) -> str:
    parts = [str(entry.identity or "a model that states no name")]
    if entry.revision:
        parts.append(f"revision {entry.revision}")
    if entry.prompts:
        parts.append(f"prompt {', '.join(entry.prompts)}")
    if entry.others:
        parts.append(f"later as {', '.join(map(str, entry.others))}")
    return ", ".join(parts)


def probe_text(probe: JudgeProbe) -> str:
    """Figures of a probe in a few sentences."""
    first, *others = probe_lines(probe)
    return "\n".join([_wrapped(first, indent=4), *(_wrapped(f"  {line}", indent=4) for line in others)])


def probe_lines(probe: JudgeProbe) -> list[str]:
    """Questions of a probe with their figures, a line each."""
    lines = [
        f"{probe.judge} asked again about {probe.responses:,} responses, {probe.verdicts:,} verdicts, at temperature "
        f"{probe.temperature:g}: it answers as {_entry(probe.identity)}",
        f"the same question, {probe.repeats} draws: {_share(probe.flips)} of verdicts flip",
        f"criteria in reverse: {_share(probe.order_changes)} change; a call for each: {_share(probe.call_changes)}",
        f"a response by one call for all criteria: {_price(probe.per_response)}",
        f"by one call for each: {_price(probe.per_criterion)}{_times(probe)}",
    ]
    if probe.unjudged:
        lines.append(f"{probe.unjudged:,} verdicts failed, and are left out")
    return lines


def _price(price: ResponsePrice) -> str:
    cached = f" ({price.cached_tokens:,.0f} of them cached there)" if price.cached_tokens else ""
    calls = f"{price.calls:.3g} call{'' if price.calls == 1 else 's'}"
    money = f", {dollars(price.dollars)}" if price.dollars else ""
    return f"{calls}, {price.prompt_tokens:,.0f} tokens in{cached}, {price.completion_tokens:,.0f} out{money}"


def _times(probe: JudgeProbe) -> str:
    whole, each = probe.per_response, probe.per_criterion
    if whole.dollars:
        return f": {each.dollars / whole.dollars:.2g} times the dollars"
    tokens = whole.prompt_tokens + whole.completion_tokens
    return f": {(each.prompt_tokens + each.completion_tokens) / tokens:.2g} times the tokens" if tokens else ""


def _share(share: Interval | None) -> str:
    return f"{percent(share.value)} ({percent_interval(share)})" if share else _MISSING


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
    lines += [_row(_shortened(criterion.criteria[0]), criterion.agreement) for criterion in comparison.criteria]
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
