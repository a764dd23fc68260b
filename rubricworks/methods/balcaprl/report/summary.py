"""Training summary of a BalCapRL run, and the last lines that `rubricworks run` prints about it."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from rubricworks.evaluation.scoreboard import LENGTH
from rubricworks.methods.balcaprl.report.headline import direction
from rubricworks.methods.balcaprl.report.run_results import SCORE_NAMES, StepMeans
from rubricworks.metrics import Interval
from rubricworks.reports.formats import number, percent, percent_interval, points, share, signed, signed_interval, span
from rubricworks.reports.headline import is_small
from rubricworks.reports.run_summary import RunSummary, last_lines, read_summary

_LINES = ("b_capscore", "dc_score", "caption_qa", "oracle_f1", LENGTH)


class TrainingSummary(BaseModel):
    """First and last training step: `training` in the summary's details."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int
    rewards: dict[str, tuple[float, float]]
    """Reward → mean of the first and of the last judged step."""
    unjudged: int
    """Rollouts of all steps that no judge could grade."""


def training_summary(steps: Sequence[StepMeans]) -> TrainingSummary | None:
    """Summarise the steps of a training; None if it has none."""
    if not steps:
        return None
    judged = [step.rewards for step in steps if step.rewards]
    return TrainingSummary(
        steps=len(steps),
        rewards={name: (judged[0][name], judged[-1][name]) for name in (judged[0] if judged else ())},
        unjudged=sum(step.unjudged for step in steps),
    )


def success_lines(run: Path) -> list[str]:
    """Lines that `rubricworks run` prints at the end, one per measured result."""
    return balcaprl_lines(read_summary(run))


def balcaprl_lines(summary: RunSummary) -> list[str]:
    lines = []
    for name in _LINES:
        figure = summary.scores.get(name)
        if figure and figure.base is not None and figure.policy is not None and figure.gain:
            pair = _pair(name, figure.base, figure.policy)
            lines.append(f"{SCORE_NAMES[name]}: {pair}, {_gain(name, figure.gain)}")
    if win := summary.win_rate:
        lines.append(f"arena against the base: {percent(win.value)} won [{percent_interval(win)}]")
    return [*lines, *last_lines(summary)]


def _pair(name: str, base: float, policy: float) -> str:
    if name == LENGTH:
        return f"{number(base, 1)} → {number(policy, 1)}"
    return f"{share(base)} → {share(policy)}"


def _gain(name: str, gain: Interval) -> str:
    unclear = ", few images" if is_small(gain) else ", not distinguishable" if direction(gain) == "open" else ""
    if name == LENGTH:
        return f"{signed(gain.value, 1)} [{signed_interval(gain, 1)}]{unclear}"
    return f"{points(gain.value)} points [{span(gain)}]{unclear}"
