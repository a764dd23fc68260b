"""Summary of an RLR³ run (`summary.json`), for programs and for the last lines that `rubricworks run` prints."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from rubricworks.evaluation.answer_summary import AnswerSummary
from rubricworks.evaluation.audit.values import FAILURE_MODES, MODE_NAMES
from rubricworks.methods.rlr3.report.run_results import ARMS, NAMES, Rlr3Run
from rubricworks.metrics import Interval
from rubricworks.reports.costs import StageCost, seconds_by_stage
from rubricworks.reports.formats import points, share, span
from rubricworks.reports.headline import gate_sentence
from rubricworks.reports.run_folder import DeadLetters, Promotion

ARM_GAIN = "rlr3 - rlvr"
"""Gain between the arms, which is reported first: best milestone against best milestone."""
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


class Rlr3Summary(BaseModel):
    """Results of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: str
    simulated: bool
    """True if the scene world stood in for images, teachers and judges."""
    macro: Macro
    gains: dict[str, Interval]
    """Best milestone minus base for each arm, and `rlr3 - rlvr`."""
    genrm: dict[str, Interval]
    """Model (base, sft, rlvr) → share of criteria that it executes right."""
    audit: dict[str, float]
    """Failure mode → false-positive rate in the default setting."""
    seconds: dict[str, float]
    """`total`, and the time of each stage; concurrent stages both count in full."""
    cost: float
    """Dollars."""
    promoted: bool
    gate: str
    """Result of the gate as a sentence."""
    alarm: str | None
    """Arm, step and reasons of the hacking alarms."""
    dead_letters: int


def rlr3_summary(
    run: Path,
    results: Rlr3Run,
    *,
    recipe: Mapping[str, Any],
    promotion: Promotion | None,
    costs: list[StageCost],
    dead_letters: list[DeadLetters],
) -> Rlr3Summary:
    default = results.audit.settings.get("text", {}) if results.audit else {}
    gains = results.answers.gains if results.answers else {}
    return Rlr3Summary(
        run=run.name,
        simulated=bool(recipe.get("world")),
        macro=_macro(results.answers),
        gains={name: gains[name] for name in GAINS if name in gains},
        genrm={model: report.criterion_level for model, report in results.genrm.items() if report.criterion_level},
        audit={
            mode: cell.average.value
            for mode in FAILURE_MODES
            if (cell := default.get(mode)) is not None and cell.average is not None
        },
        seconds=seconds_by_stage(costs),
        cost=sum(cost.cost for cost in costs),
        promoted=promotion is not None and promotion.promoted,
        gate=gate_sentence(promotion),
        alarm="; ".join(f"{NAMES[arm]}, {alarm}" for arm, alarm in results.alarms.items()) or None,
        dead_letters=sum(letters.count for letters in dead_letters),
    )


def success_lines(run: Path) -> list[str]:
    """Lines that `rubricworks run` prints at the end, one per measured result."""
    return rlr3_lines(Rlr3Summary.model_validate_json((run / "summary.json").read_bytes()))


def rlr3_lines(summary: Rlr3Summary) -> list[str]:
    lines = []
    macro = summary.macro
    if macro.base:
        parts = [f"base {share(macro.base.value)}"]
        for arm in ARMS:
            if averages := getattr(macro, arm):
                parts.append(f"{NAMES[arm]} {share(averages.best.value)} (step {averages.best_step})")
        lines.append(f"right answers in %, average over {macro.tasks} tasks: {', '.join(parts)}")
    for name, gain in summary.gains.items():
        unclear = "" if gain.lies_above(0) or gain.lies_below(0) else ", not distinguishable"
        lines.append(f"{gain_name(name)}: {points(gain.value)} points [{span(gain)}]{unclear}")
    if summary.genrm:
        parts = [f"{NAMES.get(model, model)} {share(right.value)}" for model, right in summary.genrm.items()]
        lines.append(f"criteria that the GenRM executes right, in %: {', '.join(parts)}")
    if summary.audit:
        parts = [f"{MODE_NAMES[mode].lower()} {share(rate)}" for mode, rate in summary.audit.items()]
        lines.append(f"undeserved credit in %: {', '.join(parts)}")
    lines.append("promoted to champion" if summary.promoted else f"not promoted: {summary.gate}")
    if summary.alarm:
        lines.append(f"ALARM: {summary.alarm}")
    return lines


def gain_name(name: str) -> str:
    """Display name of a gain: `rlr3` is an arm over the base, `rlr3 - rlvr` one arm over the other."""
    arm, _, other = name.partition(" - ")
    return f"{NAMES.get(arm, arm)} over {NAMES[other] if other in NAMES and other else 'the base'}"


def _macro(answers: AnswerSummary | None) -> Macro:
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
