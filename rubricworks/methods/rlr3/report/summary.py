"""An RLR³ run in one small JSON file, for programs and for the last lines that `rubricworks run` prints."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from rubricworks.evaluation.answer_summary import AnswerSummary, Difference
from rubricworks.evaluation.audit.values import FAILURE_MODES, MODE_NAMES
from rubricworks.evaluation.summary import MeanScore
from rubricworks.methods.rlr3.report.run_figures import ARMS, NAMES, Rlr3Run
from rubricworks.metrics import Estimate
from rubricworks.reports.costs import StageCost, seconds_by_stage
from rubricworks.reports.formats import points, share, span
from rubricworks.reports.headline import gate_sentence
from rubricworks.reports.run_folder import DeadLetters, Promotion

BETWEEN = "rlr3 - rlvr"
"""The gain that is told first: best milestone against best milestone."""
GAINS = (BETWEEN, "rlr3", "rlvr")


class ArmMacro(BaseModel):
    """Macro averages of one arm."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    best: MeanScore
    """Of the milestone with the highest one, on these very questions."""
    best_step: int
    last: MeanScore
    last_step: int


class Macro(BaseModel):
    """Accuracy averaged over tasks; None where it was not measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tasks: int = 0
    base: MeanScore | None = None
    rlvr: ArmMacro | None = None
    rlr3: ArmMacro | None = None


class Rlr3Summary(BaseModel):
    """What came of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: str
    simulated: bool
    """Whether the scene world stood in for images, teachers and judges."""
    macro: Macro
    gains: dict[str, Difference]
    """Best milestone minus base for each arm, and `rlr3 - rlvr`."""
    genrm: dict[str, Estimate]
    """Model (base, sft, rlvr) → share of criteria that it executes right."""
    audit: dict[str, float]
    """Failure mode → false-positive rate in the default setting."""
    seconds: dict[str, float]
    """`total`, and each stage's own; stages that ran side by side both count."""
    cost: float
    """Dollars."""
    promoted: bool
    gate: str
    """What the gate said."""
    alarm: str | None
    """Arm, step and reasons of the hacking alarms."""
    dead_letters: int


def rlr3_summary(
    run: Path,
    found: Rlr3Run,
    *,
    recipe: Mapping[str, Any],
    promotion: Promotion | None,
    costs: list[StageCost],
    dead_letters: list[DeadLetters],
) -> Rlr3Summary:
    default = found.audit.settings.get("text", {}) if found.audit else {}
    return Rlr3Summary(
        run=run.name,
        simulated=bool(recipe.get("world")),
        macro=_macro(found.answers),
        gains={name: found.answers.gains[name] for name in GAINS if found.answers and name in found.answers.gains},
        genrm={model: report.criterion_level for model, report in found.genrm.items() if report.criterion_level},
        audit={
            mode: cell.average.value
            for mode in FAILURE_MODES
            if (cell := default.get(mode)) is not None and cell.average is not None
        },
        seconds=seconds_by_stage(costs),
        cost=sum(cost.cost for cost in costs),
        promoted=promotion is not None and promotion.promoted,
        gate=gate_sentence(promotion),
        alarm="; ".join(f"{NAMES[arm]}, {alarm}" for arm, alarm in found.alarms.items()) or None,
        dead_letters=sum(letters.count for letters in dead_letters),
    )


def success_lines(run: Path) -> list[str]:
    """The last lines that `rubricworks run` prints, one per result; what was not measured has none."""
    return rlr3_lines(Rlr3Summary.model_validate_json((run / "summary.json").read_bytes()))


def rlr3_lines(summary: Rlr3Summary) -> list[str]:
    lines = []
    macro = summary.macro
    if macro.base:
        said = [f"base {share(macro.base.value)}"]
        for arm in ARMS:
            if of := getattr(macro, arm):
                said.append(f"{NAMES[arm]} {share(of.best.value)} (step {of.best_step})")
        lines.append(f"right answers in %, average over {macro.tasks} tasks: {', '.join(said)}")
    for name, gain in summary.gains.items():
        unclear = ", not distinguishable" if gain.low <= 0 <= gain.high else ""
        lines.append(f"{gain_name(name)}: {points(gain.value)} points [{span(gain)}]{unclear}")
    if summary.genrm:
        said = [f"{NAMES.get(model, model)} {share(right.value)}" for model, right in summary.genrm.items()]
        lines.append(f"criteria that the GenRM executes right, in %: {', '.join(said)}")
    if summary.audit:
        said = [f"{MODE_NAMES[mode].lower()} {share(rate)}" for mode, rate in summary.audit.items()]
        lines.append(f"undeserved credit in %: {', '.join(said)}")
    lines.append("promoted to champion" if summary.promoted else f"not promoted: {summary.gate}")
    if summary.alarm:
        lines.append(f"ALARM: {summary.alarm}")
    return lines


def gain_name(name: str) -> str:
    """`rlr3`, an arm against the base, or `rlr3 - rlvr`, one against the other, as people write it."""
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
