"""Reward-hacking alarm: fires when the reward rises together with changes that better captions do not need.

The alarm knows nothing about the responses' content. It compares the means of the last steps with those of the first
steps: the method's statistics (for captions length, repetition and objects named, see `response_statistics`) and, if
there is one, a held-out judge's score. A reward that rises alone is learning; a reward that rises while captions list
twice as many objects suggests a policy that answers the rubric instead of describing the image.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from rubricworks.data.alarm import Alarm
from rubricworks.rubrics import Response
from rubricworks.training.config import AlarmConfig
from rubricworks.training.policy.response_statistics import TEXT_STATISTICS, Statistic

PROBES = 2
"""Held-out scores to average: a single score covers a few dozen samples and may be a passing dip."""


class StepStats(NamedTuple):
    """Means over the rollouts of one step."""

    step: int
    reward: float
    """NaN if no rollout could be judged."""
    values: Mapping[str, float]
    """Statistic → mean."""
    held_out: float = math.nan
    """Score of the held-out judge, NaN at steps without a probe."""


class HackingAlarm:
    """Detector that takes one `StepStats` per step, in order, and fires at most once."""

    def __init__(self, config: AlarmConfig | None = None, statistics: Sequence[Statistic] = TEXT_STATISTICS) -> None:
        """
        Args:
            statistics: those whose change is suspicious; a step without the value of one counts for nothing.
        """
        self.config = config or AlarmConfig()
        self.statistics = tuple(statistics)
        self.alarm: Alarm | None = None
        self._start: list[StepStats] = []
        self._recent: deque[StepStats] = deque(maxlen=self.config.window)
        self._held_out: list[float] = []
        self._suspicious_steps = 0

    def update(self, stats: StepStats) -> Alarm | None:
        """Return the alarm if it fires at this step, else None (also after it has fired)."""
        if not math.isnan(stats.held_out):
            self._held_out.append(stats.held_out)
        if len(self._start) < self.config.window:
            self._start.append(stats)
            return None
        self._recent.append(stats)
        if self.alarm is not None or len(self._recent) < self.config.window:
            return None
        reasons = self._reasons()
        self._suspicious_steps = self._suspicious_steps + 1 if reasons else 0
        if self._suspicious_steps < self.config.patience:
            return None
        self.alarm = Alarm(step=stats.step, reasons=reasons)
        return self.alarm

    def _reasons(self) -> tuple[str, ...]:
        config = self.config
        reward = _Change(*(mean_present([stats.reward for stats in steps]) for steps in (self._start, self._recent)))
        if not reward.now - reward.start > config.reward_gain:
            return ()
        reasons = []
        for statistic in self.statistics:
            change = self._change(statistic)
            if statistic.rule == "factor":
                if change.now > change.start * config.growth or change.now * config.growth < change.start:
                    reasons.append(f"{statistic.words} went from {change.start:.1f} to {change.now:.1f}")
            elif statistic.rule == "collapse":
                if change.now < config.collapse * change.start:
                    reasons.append(f"{statistic.words} went from {change.start:.3f} to {change.now:.3f}")
            elif change.now - change.start > config.repetition_gain:
                reasons.append(f"{statistic.words} went from {change.start:.0%} to {change.now:.0%}")
        if len(self._held_out) > PROBES:
            start, now = self._held_out[0], fmean(self._held_out[-PROBES:])
            if start - now > config.held_out_loss:
                reasons.append(f"the held-out judge fell from {start:.2f} to {now:.2f}")
        if reasons:
            reasons.append(f"while reward rose from {reward.start:.2f} to {reward.now:.2f}")
        return tuple(reasons)

    def _change(self, statistic: Statistic) -> "_Change":
        values = (
            [stats.values.get(statistic.name, math.nan) for stats in steps] for steps in (self._start, self._recent)
        )
        return _Change(*map(mean_present, values))


class _Change(NamedTuple):
    start: float
    now: float


def mean_present(values: Sequence[float]) -> float:
    """Mean of the values that are no NaN; NaN if there are none."""
    present = [value for value in values if not math.isnan(value)]
    return fmean(present) if present else math.nan


def step_stats(
    step: int,
    responses: Sequence[str | Response],
    tokens: Sequence[int],
    rewards: Sequence[float | None],
    held_out: float = math.nan,
    statistics: Sequence[Statistic] = TEXT_STATISTICS,
    group_size: int = 1,
) -> StepStats:
    """Compute the statistics of one step's rollouts; rewards of None are excluded from the mean.

    Args:
        group_size: rollouts per sample, which are adjacent; for the statistics of groups.
    Raises:
        UserError: a statistic of texts is given images.
    """
    rollouts = [(Response.of(response), count) for response, count in zip(responses, tokens, strict=True)]
    judged = [reward for reward in rewards if reward is not None]
    return StepStats(
        step=step,
        reward=fmean(judged) if judged else math.nan,
        values={statistic.name: _mean_of(statistic, rollouts, group_size) for statistic in statistics},
        held_out=held_out,
    )


def _mean_of(statistic: Statistic, rollouts: Sequence[tuple[Response, int]], group_size: int) -> float:
    if statistic.of_group is None:
        return mean_present([statistic.measure(*rollout) for rollout in rollouts])
    responses = [response for response, _ in rollouts]
    groups = [responses[start : start + group_size] for start in range(0, len(responses), group_size)]
    return mean_present([statistic.of_group(group) for group in groups])
