"""The audit of a set of rubrics as text and as one HTML page with the worst rubrics."""

from collections.abc import Mapping

from rubricworks.data.rubric_sets import RubricEntry
from rubricworks.evaluation.rubric_audit import (
    ADVICE,
    AuditCost,
    CriterionFlag,
    Rewrite,
    RubricAudit,
    RubricFinding,
    RubricFixes,
)
from rubricworks.grading.agreement.report import JudgeIdentity
from rubricworks.metrics import Interval
from rubricworks.reports.agreement import identity_text
from rubricworks.reports.formats import (
    counted,
    dollars,
    duration,
    interval,
    number,
    percent,
    percent_interval,
    whole,
)
from rubricworks.reports.rendering import render
from rubricworks.rubrics import Criterion, Rubric

AUDIT_FILE = "audit.json"
AUDIT_PAGE = "audit.html"
FIXES_FILE = "fixes.json"
FIXED_SET = "fixed.jsonl"
"""Files of an audit in its folder; a run has the first two beside its table of rubrics."""
_SHOWN = 20
_NAMED = 3


def audit_text(audit: RubricAudit) -> str:
    """Figures of an audit, a line each."""
    lines = [
        f"{counted(len(audit.findings), 'rubric')} with {counted(audit.criteria, 'criterion', 'criteria')} in "
        f"{calls_text(audit)}",
        f"flagged: {percent(audit.flagged.value)} of the rubrics ({percent_interval(audit.flagged)})",
        f"gap between the best response and the best-rewarded bad one: {_gap(audit)}",
        *(
            f"  {name:<14} {count:>5} {'rubric ' if count == 1 else 'rubrics'}  {ADVICE[name]}"
            for name, count in audit.by_flag.items()
        ),
        *(
            [f"rewards that change when the response is padded or shuffled: {_share(audit.form_changes)}"]
            if audit.form_changes
            else []
        ),
        f"verdicts that change when the criteria are listed in reverse: {_share(audit.order_changes)}",
        *([f"verdicts that change when the same is asked again: {_share(audit.flips)}"] if audit.flips else []),
        f"rubrics in which the judge credits what no response can meet: {percent(audit.impossible_credited)}",
    ]
    lines += judge_lines(audit)
    if audit.unjudged:
        lines.append(f"probes that could not be judged, and count in no flag: {audit.unjudged}")
    return "\n".join(lines + untested_texts(audit))


def calls_text(audit: RubricAudit) -> str:
    """Question to the judge."""
    readings = f" and {counted(audit.readings, 'reading')}" if audit.readings else ""
    return f"{counted(audit.calls, 'grading')}{readings} by {audit.judge}"


def judge_lines(audit: RubricAudit) -> list[str]:
    """Judge's model, by its answers, and the cost; empty for an audit in a run, whose report has both."""
    lines = []
    if audit.identities:
        lines.append(identity_text(JudgeIdentity(rater=audit.judge, judge=audit.judge, entries=audit.identities)))
    if audit.several_models:
        lines.append("these are several models: verdicts of one do not compare with those of another")
    if audit.cost:
        lines += [f"cost: {cost_text(audit.cost)}", f"of a rubric: {_cost_each(audit.cost, len(audit.findings))}"]
    return lines


def cost_text(cost: AuditCost) -> str:
    """Calls, tokens, dollars and seconds."""
    from_cache = f", {cost.cached} of them answered by the cache" if cost.cached else ""
    money = "" if cost.dollars is None else f", {dollars(cost.dollars)}"
    return f"{counted(cost.calls, 'call')}{from_cache}, {_tokens(cost, 1)}{money}, {duration(cost.seconds)}"


def _cost_each(cost: AuditCost, count: int) -> str:
    money = "" if cost.dollars is None else f", {dollars(cost.dollars / count)}"
    return f"{number((cost.calls - cost.cached) / count, 1)} calls, {_tokens(cost, count)}{money}"


def _tokens(cost: AuditCost, count: int) -> str:
    there = f" ({whole(cost.cached_tokens / count)} of them cached there)" if cost.cached_tokens else ""
    return f"{whole(cost.prompt_tokens / count)} tokens in{there}, {whole(cost.completion_tokens / count)} out"


def untested_texts(audit: RubricAudit) -> list[str]:
    """Sentences about what was not tested: rubrics that were not tried or read, and flags that nothing decided."""
    lines = []
    if audit.unaudited:
        every = audit.unaudited + len(audit.findings)
        why = "was not audited: its sample has" if audit.unaudited == 1 else "were not audited: their samples have"
        lines.append(f"{audit.unaudited} of {every} rubrics {why} no response and no reference answer")
    if audit.unread:
        lines.append(
            f"{audit.unread} of {counted(len(audit.findings), 'rubric')} could not be read by the judge, so that "
            "nothing is known of what the criteria join and which ask for an act"
        )
    if audit.untested:
        names = ", ".join(f"{name} in {count}" for name, count in audit.untested.items())
        without = "rubric has no flag, but was" if audit.undecided == 1 else "rubrics have no flag, but were"
        lines.append(f"{audit.undecided} {without} not wholly tested; untested: {names}")
    if _is_alone(audit):
        lines.append(
            "one rubric alone is not tried on another sample's response, which presence only and not about it need"
        )
    return lines


def _is_alone(audit: RubricAudit) -> bool:
    """Return True if a rubric's flags that need another sample could not be tested, because there is none."""
    return len(audit.findings) == 1 and "not about it" in audit.untested


def refusal_text(audit: RubricAudit, allowed: float) -> str:
    """Sentence stating why an audit does not pass; "" if it passes.

    It does not if more rubrics are flagged than are allowed, or might be, had all probes been judged, or if fewer than
    half of the rubrics could be tried. What was not tested is not sound.
    """
    count = len(audit.findings)
    if audit.flagged.value > allowed:
        return _excess_text(audit, allowed)
    if audit.unaudited > count:
        return f"too little was audited: {untested_texts(audit)[0]}; give responses to them"
    if audit.flagged.value + audit.undecided / count > allowed:
        remedy = (
            "audit it beside a rubric of another sample, on whose response it is tried"
            if _is_alone(audit)
            else "start it again, and only the calls that failed are asked again"
        )
        return (
            f"too little was judged: {_flagged_text(audit)} and {percent(audit.undecided / count)} not wholly tested, "
            f"and at most {percent(allowed)} are allowed; {remedy}"
        )
    return ""


def _excess_text(audit: RubricAudit, allowed: float) -> str:
    worst = [
        f"{finding.sample_id} ({', '.join(dict.fromkeys(flag.flag for flag in finding.flags))})"
        for finding in audit.worst
    ]
    more = f", and {len(worst) - _NAMED} more" if len(worst) > _NAMED else ""
    return (
        f"{_flagged_text(audit)}, and at most {percent(allowed)} are allowed; the worst: "
        f"{', '.join(worst[:_NAMED])}{more}"
    )


def _flagged_text(audit: RubricAudit) -> str:
    count = len(audit.findings)
    return (
        f"{percent(audit.flagged.value)} of {counted(count, 'audited rubric')} {'is' if count == 1 else 'are'} flagged"
    )


def fixes_lines(fixes: RubricFixes) -> list[str]:
    """Figures of the rewrites, one each."""
    audit, flagged = fixes.audit, counted(len(fixes.rewrites), "flagged rubric")
    failed = [rewrite for rewrite in fixes.rewrites if rewrite.new is None]
    better_count = len(fixes.kept)
    has, are, them = ("has", "is", "it") if better_count == 1 else ("have", "are", "them")
    better = (
        f"{counted(better_count, 'rewrite')} {has} fewer flags than before and {are} kept"
        if better_count
        else "none is kept"
    )
    lines = [f"{fixes.writer} rewrote {len(fixes.rewrites) - len(failed)} of {flagged}; {better}"]
    if better_count:
        lines += [
            f"flagged with {them}: {percent(audit.flagged.value)} of the rubrics ({percent_interval(audit.flagged)})",
            f"gap with {them}: {_gap(audit)}",
        ]
    if audit.cost and fixes.writer_cost:
        lines.append(f"cost of the writer: {cost_text(fixes.writer_cost)}")
        lines.append(f"cost of the judge, with the audit before: {cost_text(audit.cost)}")
    if failed:
        lines.append(f"no usable answer for {len(failed)}, such as {failed[0].sample_id}: {failed[0].error}")
    return lines


def audit_page(
    audit: RubricAudit,
    entries: Mapping[str, RubricEntry],
    *,
    title: str = "",
    fixes: RubricFixes | None = None,
) -> str:
    """The page.

    Args:
        entries: the rubrics by sample.
        title: a description of the rubrics.
        fixes: rewrites of the flagged ones, shown beside them.
    """
    rewrites = {rewrite.sample_id: rewrite for rewrite in fixes.rewrites} if fixes else {}
    worst = [
        (finding, _criteria(finding, entry.rubric), rewrites.get(finding.sample_id))
        for finding in audit.worst[:_SHOWN]
        for entry in [entries[finding.sample_id]]
    ]
    return render(
        "rubric_audit.html",
        audit=audit,
        title=f"{percent(audit.flagged.value)} of {counted(len(audit.findings), 'rubric')} "
        f"{'is' if len(audit.findings) == 1 else 'are'} flagged",
        kicker="Rubricworks audit of rubrics",
        lead=title,
        footer="Made by Rubricworks.",
        gap=_gap(audit),
        calls=calls_text(audit),
        judge_lines=judge_lines(audit),
        untested=untested_texts(audit),
        meanings=ADVICE,
        worst=[(*row, _new_criteria(row[2])) for row in worst],
        fixes=fixes,
        fixes_lines=fixes_lines(fixes) if fixes else [],
        styles=("report.css", "tables.css"),
    )


def _criteria(finding: RubricFinding, rubric: Rubric) -> list[tuple[Criterion, list[CriterionFlag]]]:
    """Criteria, each with its flags."""
    return [
        (criterion, [flag for flag in finding.flags if flag.criterion == criterion.criterion])
        for criterion in rubric.criteria
    ]


def _new_criteria(rewrite: Rewrite | None) -> list[tuple[Criterion, list[CriterionFlag]]]:
    return _criteria(rewrite.after, rewrite.new) if rewrite and rewrite.new and rewrite.after else []


def _share(figure: Interval) -> str:
    return f"{percent(figure.value)} ({percent_interval(figure)})"


def _gap(audit: RubricAudit) -> str:
    return f"{number(audit.gap.value if audit.gap else None)} ({interval(audit.gap)})"
