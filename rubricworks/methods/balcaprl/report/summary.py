"""Summary of a BalCapRL run (`summary.json`), for programs and for the last lines that `rubricworks run` prints."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from rubricworks.evaluation.caption_summary import CaptionSummary
from rubricworks.methods.balcaprl.report.headline import direction
from rubricworks.methods.balcaprl.report.run_results import SCORE_NAMES, BalcaprlRun
from rubricworks.metrics import Interval
from rubricworks.reports.costs import StageCost, seconds_by_stage
from rubricworks.reports.formats import number, percent, percent_interval, points, share, signed, signed_interval, span
from rubricworks.reports.headline import gate_sentence, is_small
from rubricworks.reports.run_folder import DeadLetters, Promotion

_LINES = ("b_capscore", "dc_score", "caption_qa", "oracle_f1", "tokens")


class TrainingSummary(BaseModel):
    """First and last training step."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int
    rewards: dict[str, tuple[float, float]]
    """Reward → mean of the first and of the last judged step."""
    unjudged: int
    """Rollouts of all steps that no judge could grade."""


class BalcaprlSummary(BaseModel):
    """Results of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: str
    simulated: bool
    """True if the scene world stood in for images, captioners and judges."""
    captions: CaptionSummary | None
    """Held-out scores; None if they were not measured."""
    training: TrainingSummary | None
    seconds: dict[str, float]
    """`total`, and the time of each stage; concurrent stages both count in full."""
    cost: float
    """Dollars."""
    promoted: bool
    gate: str
    """Result of the gate as a sentence."""
    alarm: str | None
    dead_letters: int


def balcaprl_summary(
    run: Path,
    results: BalcaprlRun,
    *,
    recipe: Mapping[str, Any],
    promotion: Promotion | None,
    costs: list[StageCost],
    dead_letters: list[DeadLetters],
) -> BalcaprlSummary:
    judged = [step.rewards for step in results.steps if step.rewards]
    training = TrainingSummary(
        steps=len(results.steps),
        rewards={name: (judged[0][name], judged[-1][name]) for name in (judged[0] if judged else ())},
        unjudged=sum(step.unjudged for step in results.steps),
    )
    return BalcaprlSummary(
        run=run.name,
        simulated=bool(recipe.get("world")),
        captions=results.captions,
        training=training if results.steps else None,
        seconds=seconds_by_stage(costs),
        cost=sum(cost.cost for cost in costs),
        promoted=promotion is not None and promotion.promoted,
        gate=gate_sentence(promotion),
        alarm=str(results.alarm) if results.alarm else None,
        dead_letters=sum(letters.count for letters in dead_letters),
    )


def success_lines(run: Path) -> list[str]:
    """Lines that `rubricworks run` prints at the end, one per measured result."""
    return balcaprl_lines(BalcaprlSummary.model_validate_json((run / "summary.json").read_bytes()))


def balcaprl_lines(summary: BalcaprlSummary) -> list[str]:
    lines = []
    captions = summary.captions
    for name in _LINES:
        if captions is None:
            break
        base, policy, gain = (
            captions.models["base"].get(name),
            captions.models["policy"].get(name),
            captions.gains.get(name),
        )
        if base and policy and gain:
            lines.append(f"{SCORE_NAMES[name]}: {_pair(name, base, policy)}, {_gain(name, gain)}")
    if captions and captions.win_rate:
        win = captions.win_rate
        lines.append(f"arena against the base: {percent(win.value)} won [{percent_interval(win)}]")
    lines.append("promoted to champion" if summary.promoted else f"not promoted: {summary.gate}")
    if summary.alarm:
        lines.append(f"ALARM: {summary.alarm}")
    return lines


def _pair(name: str, base: Interval, policy: Interval) -> str:
    if name == "tokens":
        return f"{number(base.value, 1)} → {number(policy.value, 1)}"
    return f"{share(base.value)} → {share(policy.value)}"


def _gain(name: str, gain: Interval) -> str:
    unclear = ", few images" if is_small(gain) else ", not distinguishable" if direction(gain) == "open" else ""
    if name == "tokens":
        return f"{signed(gain.value, 1)} [{signed_interval(gain, 1)}]{unclear}"
    return f"{points(gain.value)} points [{span(gain)}]{unclear}"
