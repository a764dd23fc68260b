"""Details of an RLR³ run in `summary.json`, and the last lines that `rubricworks run` prints about it."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from rubricworks.evaluation.audit.values import FAILURE_MODES, MODE_NAMES
from rubricworks.methods.rlr3.accuracy import ARM_GAIN, ARMS, Accuracies
from rubricworks.methods.rlr3.report.run_results import NAMES, Rlr3Run
from rubricworks.metrics import Interval
from rubricworks.reports.formats import points, share, span
from rubricworks.reports.run_summary import RunSummary, last_lines, read_summary

GAINS = (ARM_GAIN, "rlr3", "rlvr")


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
    """Results that only this method measures, as `details` of `summary.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    macro: Macro = Macro()
    gains: dict[str, Interval] = {}
    """Best milestone minus base for each arm, and `rlr3 - rlvr`."""
    genrm: dict[str, Interval] = {}
    """Model (base, sft, rlvr) → share of criteria that it executes right."""
    audit: dict[str, float] = {}
    """Failure mode → false-positive rate in the default setting."""
    rubric_audit: dict[str, JsonValue] | None = None
    """Figures of the audit of the checklists before training."""


def rlr3_details(results: Rlr3Run) -> Details:
    default = results.audit.settings.get("text", {}) if results.audit else {}
    gains = results.answers.gains if results.answers else {}
    return Details(
        macro=_macro(results.answers),
        gains={name: gains[name] for name in GAINS if name in gains},
        genrm={model: report.criterion_level for model, report in results.genrm.items() if report.criterion_level},
        audit={
            mode: cell.average.value
            for mode in FAILURE_MODES
            if (cell := default.get(mode)) is not None and cell.average is not None
        },
    )


def alarm_sentence(results: Rlr3Run) -> str | None:
    """Arm, step and reasons of the hacking alarms."""
    return "; ".join(f"{NAMES[arm]}, {alarm}" for arm, alarm in results.alarms.items()) or None


def success_lines(run: Path) -> list[str]:
    """Lines that `rubricworks run` prints at the end, one per measured result."""
    return rlr3_lines(read_summary(run))


def rlr3_lines(summary: RunSummary) -> list[str]:
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


def gain_name(name: str) -> str:
    """Display name of a gain: `rlr3` is an arm over the base, `rlr3 - rlvr` one arm over the other."""
    arm, _, other = name.partition(" - ")
    return f"{NAMES.get(arm, arm)} over {NAMES[other] if other in NAMES and other else 'the base'}"


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
