"""Report of an RLR³ run: headline, Figure 2 and Table 2, and the sections of its stages with Tables 1 and 3 to 5."""

from collections.abc import Callable
from functools import partial
from typing import Any

from pydantic import BaseModel, ConfigDict

from rubricworks.evaluation.audit.values import MODE_NAMES
from rubricworks.evaluation.scoreboard import BASE
from rubricworks.methods.rlr3.accuracy import ARM_GAIN, ARMS, Accuracies, Accuracy, read_accuracies
from rubricworks.methods.rlr3.stage_sections import NAMES, corpus, genrm, judge_audit, labels
from rubricworks.metrics import Interval
from rubricworks.policy.policy import recorded_policy
from rubricworks.reports.charts import MilestoneCurve, SeriesChart, milestone_chart
from rubricworks.reports.data import rubrics
from rubricworks.reports.examples import examples
from rubricworks.reports.formats import number, points, share, span, whole
from rubricworks.reports.headline import Headline, Mood, hero, is_small
from rubricworks.reports.page import Block, Report, of_stage
from rubricworks.reports.parts import Cell, Charts, Entry, Heading, Notes, Part, Table, Text, Tile
from rubricworks.reports.record import RECORD
from rubricworks.reports.run_folder import RunFolder
from rubricworks.reports.run_summary import RunSummary, last_lines
from rubricworks.reports.training import training
from rubricworks.stages.release.judge_trust import audited_rubrics, judge_errors

GAINS = (ARM_GAIN, "rlr3", "rlvr")
"""Exposure of the policy's judge → text."""
_FIGURE_2 = (
    "Right answers in percent at every milestone, averaged over tasks; shaded: 95 % intervals. The large marker is an "
    "arm's best milestone, chosen by this very average, so it flatters a little; the heading tells the best ones."
)
_SIMULATED = (
    "Scenes and questions are generated; the writers of checklists, the teachers, the opener, the judges and the "
    "writers of abnormal responses are scripted, with stated error rates. The policy and the GenRM are small models "
    "that are really trained. Which arm wins here says how the mechanism behaves with these faults, nothing of "
    "photographs or of large models."
)
_NOTES = (
    (
        "The best milestone is chosen on the same questions that it is reported on,",
        "for both arms alike, as in the paper. That flatters both; the last milestone stands beside it. The intervals "
        "do not know of the choice.",
    ),
    (
        "Right answers.",
        "The last box counts. Letters, numbers, formulas and boxes are checked by rules; words by a text judge that "
        "sees question, reference and final answer, or, without a judge, they must be the reference's.",
    ),
    (
        "Intervals.",
        "95 % bootstrap: accuracies resample questions within each task, differences resample the same questions of "
        "both models. Where all are right or none is, an accuracy has Wilson's interval. They tell of the questions "
        "that were asked, not of another training run.",
    ),
    (
        "GenRM and audit.",
        "Labels are medians of the teachers' scores, so “right” means agreement with them. The audit names its judge; "
        "it is that judge's record, whoever scored the training.",
    ),
)


class ArmMacro(BaseModel):
    """Macro averages of one arm."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    best: Interval
    """Highest macro average of a milestone, chosen on these same questions."""
    best_step: int
    last: Interval
    last_step: int


class Macro(BaseModel):
    """Accuracy averaged over tasks; None if it was not measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tasks: int = 0
    base: Interval | None = None
    rlvr: ArmMacro | None = None
    rlr3: ArmMacro | None = None


class Details(BaseModel):
    """Results that only this method measures, in `details` of `summary.json`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    macro: Macro = Macro()
    gains: dict[str, Interval] = {}
    """Best milestone minus base for each arm, and `rlr3 - rlvr`."""
    genrm: dict[str, Interval] = {}
    """Model (base, sft, rlvr) → share of criteria that it executes right."""
    audit: dict[str, float] = {}
    """Failure mode → false-positive rate in the default setting."""


def opening(run: RunFolder) -> Block:
    """RLR³ against RLVR and the base model."""
    answers = read_accuracies(run.board)
    tiles = [_gain_tile(name, answers.gains[name]) for name in GAINS if name in answers.gains] if answers else []
    chart = _milestones("Macro average", answers, lambda accuracy: accuracy.macro, intervals=True, gap=7.0)
    more: list[Part] = [Charts([chart], "figure-two"), Text(_FIGURE_2, "quiet")] if chart else []
    return hero(run, rlr3_headline(answers), tiles, more=more)


def _gain_tile(name: str, gain: Interval) -> Tile:
    clear = gain.lies_above(0) or gain.lies_below(0)
    note = f"points, {span(gain)}{'' if clear else ': not distinguishable'}"
    return Tile(
        gain_name(name), points(gain.value), note, kind="none" if not clear else "worse" if gain.value < 0 else ""
    )


def rlr3_headline(answers: Accuracies | None) -> Headline:
    """Compare the arms' best milestones, or a single arm with the base model."""
    arms = [arm for arm in ARMS if answers and answers.arms.get(arm)]
    if answers is None or not arms:
        return Headline("Neither RLR³ nor RLVR has been evaluated in this run.")
    count = answers.base.macro.samples
    if is_small(answers.base.macro):
        return Headline(f"Too few questions to tell: {_averages(answers, arms)}, over {count} questions.")
    both = len(arms) > 1
    gain = answers.gains.get(ARM_GAIN if both else arms[0])
    if gain is None:
        return Headline(f"No question was judged for both: {_averages(answers, arms)}.")
    mood, relation = _relation(gain)
    compared = f"RLR³ {relation} RLVR" if both else f"{NAMES[arms[0]]} {relation} the base model"
    tasks = len(answers.base.tasks)
    return Headline(
        f"{compared}: {_averages(answers, arms)} right on average over {tasks} task{'s' if tasks != 1 else ''}, "
        f"{points(gain.value)} points ({span(gain)}).",
        mood,
    )


def _relation(gain: Interval) -> tuple[Mood, str]:
    if gain.lies_above(0):
        return "good", "is better than"
    if gain.lies_below(0):
        return "bad", "is worse than"
    return "open", "is not distinguishable from"


def _averages(answers: Accuracies, arms: list[str]) -> str:
    """Write the arms' macro averages, RLR³'s first, and the base model's last."""
    averages = [_percent(answers.accuracy(arm).macro.value) for arm in reversed(arms)]
    return f"{' against '.join(averages)} (base {_percent(answers.base.macro.value)})"


def _percent(value: float) -> str:
    return f"{share(value)}\N{NARROW NO-BREAK SPACE}%"


def accuracy(run: RunFolder) -> Block:
    """Table 2 and Figure 2: right answers by task, of the base and of both arms."""
    answers = read_accuracies(run.board)
    details: dict[str, Any] = {
        "macro": _macro(answers).model_dump(mode="json"),
        "gains": {
            name: answers.gains[name].model_dump(mode="json") for name in GAINS if answers and name in answers.gains
        },
    }
    if answers is None:
        text = "There is no evaluation: the score stage has not finished in this run."
        return Block("accuracy", "Accuracy by task", [Text(text, "missing")], name="Accuracy", details=details)
    columns = _columns(answers)
    tasks = sorted(
        {task for _, _, of in columns for task in of.tasks}
        | {t for of in answers.arms.values() for milestone in of for t in milestone.tasks}
    )
    rows = [_row(task, [of.tasks.get(task) for _, _, of in columns], columns) for task in tasks]
    rows.append(_row("Macro average", [of.macro for _, _, of in columns], columns, answers.gains.get(ARM_GAIN)))
    tokens = ", ".join(f"{title} {number(of.tokens, 0)}" for _, title, of in columns)
    parts: list[Part] = [
        Table(
            ("Task", *(title for _, title, _ in columns)),
            rows,
            "Table 2. Right answers, percent",
            "Signed: RLR³ over RLVR, beside which it stands. What could not be judged is in no figure; the difference "
            "of the best macro averages is over the questions that were judged for both. Tokens per response: "
            f"{tokens}.",
            total=True,
        )
    ]
    gains = [
        (
            gain_name(name),
            points(gain.value),
            f"{span(gain)}{'' if gain.lies_above(0) or gain.lies_below(0) else ', not distinguishable'}",
        )
        for name in GAINS
        if (gain := answers.gains.get(name))
    ]
    if gains:
        note = "Question by question, each task's questions resampled: what both models find hard cancels out."
        parts.append(Table(("Best milestones, macro average", "Points", "95 % interval"), gains, note=note))
    charts = [
        _milestones(task, answers, lambda of, task=task: of.tasks.get(task), intervals=False, gap=11.0)  # type: ignore[misc]
        for task in tasks
    ]
    if drawn := [chart for chart in charts if chart]:
        parts += [Heading("Figure 2. Accuracy over milestones, task by task"), Charts(drawn, "multiples")]
    return Block("accuracy", "Accuracy by task", parts, name="Accuracy", details=details)


_Column = tuple[str, str, Accuracy]
"""Kind, title and accuracy of a model in Table 2."""


def _columns(answers: Accuracies) -> list[_Column]:
    """Base, each arm's best milestone, each arm's last one."""
    arms = [arm for arm in ARMS if answers.arms.get(arm)]
    best = [(arm, "best", answers.accuracy(arm)) for arm in arms]
    last = [(arm, "last", answers.arms[arm][-1]) for arm in arms]
    trained = [(arm, f"{NAMES[arm]} {which}, step {of.step}", of) for arm, which, of in best + last]
    return [(BASE, NAMES[BASE], answers.base), *trained]


def _row(
    name: str, figures: list[Interval | None], columns: list[_Column], best_gain: Interval | None = None
) -> list[Entry]:
    """Row of Table 2; RLR³'s entries have the difference from RLVR in the column before.

    Args:
        best_gain: gain between the best milestones, over the questions that were judged for both, as in the headline.
    """
    measured = [figure for figure in figures if figure]
    questions = max(((figure.samples or 0) + figure.missing for figure in measured), default=0)
    missing = sum(figure.missing for figure in measured)
    unjudged = f", {whole(missing)} answer{'s' if missing != 1 else ''} not judged" if missing else ""
    row: list[Entry] = [f"{name} · {whole(questions)} questions{unjudged}"]
    for at, ((kind, _, _), figure) in enumerate(zip(columns, figures, strict=True)):
        other = figures[at - 1] if kind == "rlr3" and columns[at - 1][0] == "rlvr" else None
        change = figure.value - other.value if figure and other else None
        if change is not None and best_gain is not None:
            change, best_gain = best_gain.value, None
        signed = f" {points(change)}" if change is not None else ""
        row.append(Cell(f"{share(figure.value)}{signed}", span(figure)) if figure else None)
    return row


def _milestones(
    title: str,
    answers: Accuracies | None,
    score_of: Callable[[Accuracy], Interval | None],
    *,
    intervals: bool,
    gap: float,
) -> SeriesChart | None:
    if answers is None:
        return None
    curves = [
        MilestoneCurve(arm, NAMES[arm], scores, answers.best[arm])
        for arm in ARMS
        if (scores := [(of.step, figure) for of in answers.arms.get(arm, ()) if (figure := score_of(of)) is not None])
    ]
    base = score_of(answers.base)
    return milestone_chart(title, base, curves, intervals=intervals, gap=gap, base_label=NAMES[BASE])


def _macro(answers: Accuracies | None) -> Macro:
    if answers is None:
        return Macro()
    arms = {
        arm: ArmMacro(
            best=answers.accuracy(arm).macro,
            best_step=answers.best[arm],
            last=answers.arms[arm][-1].macro,
            last_step=answers.arms[arm][-1].step,
        )
        for arm in ARMS
        if answers.arms.get(arm)
    }
    return Macro(tasks=len(answers.base.tasks), base=answers.base.macro, **arms)


def gain_name(name: str) -> str:
    """Display name of a gain: `rlr3` is an arm over the base, `rlr3 - rlvr` one arm over the other."""
    arm, _, other = name.partition(" - ")
    return f"{NAMES.get(arm, arm)} over {NAMES[other] if other else 'the base'}"


def method_notes(run: RunFolder) -> Block:
    policy = recorded_policy(run.recipe)
    checklist = f" For RLR³ {policy.reward.describe()}" if policy and policy.reward else ""
    trainer = f"RLVR rewards the final answer in the last box and calls no model.{checklist}"
    notes = [*_NOTES[:1], ("One trainer, the same questions.", trainer), *_NOTES[1:]]
    if run.recipe.get("world"):
        notes.insert(0, ("What is simulated.", _SIMULATED))
    return Block("method", "How to read this", [Notes(notes)], name="Method")


def success_lines(summary: RunSummary) -> list[str]:
    lines = []
    details = Details.model_validate(summary.details)
    macro = details.macro
    if macro.base:
        parts = [f"base {share(macro.base.value)}"]
        for arm in ARMS:
            if averages := getattr(macro, arm):
                parts.append(f"{NAMES[arm]} {share(averages.best.value)} (step {averages.best_step})")
        lines.append(f"right answers in %, average over {macro.tasks} tasks: {', '.join(parts)}")
    for name, gain in details.gains.items():
        unclear = "" if gain.lies_above(0) or gain.lies_below(0) else ", not distinguishable"
        lines.append(f"{gain_name(name)}: {points(gain.value)} points [{span(gain)}]{unclear}")
    if details.genrm:
        parts = [f"{NAMES.get(model, model)} {share(right.value)}" for model, right in details.genrm.items()]
        lines.append(f"criteria that the GenRM executes right, in %: {', '.join(parts)}")
    if details.audit:
        parts = [f"{MODE_NAMES[mode].lower()} {share(rate)}" for mode, rate in details.audit.items()]
        lines.append(f"undeserved credit in %: {', '.join(parts)}")
    return [*lines, *last_lines(summary)]


REPORT = Report(
    method="rlr3",
    sections=(
        opening,
        accuracy,
        partial(
            training,
            note="The rewards are not the same thing: RLVR's is whether the final answer is right, RLR³'s is the "
            "checklist, remapped in each group and gated.",
        ),
        of_stage("offline_filter", corpus),
        of_stage("write_checklists", rubrics, title="Checklists"),
        audited_rubrics,
        judge_errors,
        of_stage("genrm_data", labels),
        of_stage("train_genrm", genrm),
        of_stage("audit", judge_audit),
        partial(examples, names=NAMES),
        method_notes,
        *RECORD,
    ),
    success_lines=success_lines,
    trainings={"train_rlvr": "RLVR", "train_rlr3": "RLR³"},
    responses="answers",
    footer="Intervals are 95 % bootstrap intervals, or Wilson's at 0 and 100 %. Method: RLR³ (Reinforcement Learning "
    "with Robust Rubric Rewards), sections 4 and 5.",
)
