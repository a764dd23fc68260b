"""Reward-hacking alarm: fires when the reward has risen while the quality that it should measure has fallen, over two
looks.

A look compares the steps since the last look with the best of all looks before it, by losses that add up: how far the
held-out judge's scores fell, sample by sample; how much less responses tell their image from other images; how much
more they repeat themselves. Each loss counts from that statistic's own best look, so that a policy that gets better
first is watched from there. The held-out fall counts only where its paired interval lies above 0, at a level that
allows for all looks. Length and the number of objects named are shown and not weighed: good policies change both.

The weights and the limit were fixed on one half of simulated trainings (`benchmarks.hacking_alarm`); docs/results.md
has the rates on the other half.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from rubricworks.data.alarm import Alarm
from rubricworks.metrics.intervals import t_interval
from rubricworks.rubrics import Response
from rubricworks.training.policy.response_statistics import TEXT_STATISTICS, Statistic

LOOK = 10
"""Steps between two looks, where no probe sets them."""
PATIENCE = 2
"""Number of looks over which the losses are averaged, since a single one may be chance."""
LIMIT = 0.26
"""Averaged sum of the losses beyond which the alarm fires."""
GAIN = 0.02
"""Rise of the reward over the first look, below which nothing is suspicious."""
HELD_OUT = "held_out"


class StepStats(NamedTuple):
    """Means over the rollouts of one step."""

    step: int
    reward: float
    """NaN if no rollout could be judged."""
    values: Mapping[str, float]
    """Statistic → mean."""
    held_out: tuple[float | None, ...] = ()
    """Scores by the held-out judge of the policy before this step, one per sample; empty at steps without a probe."""


class Look(NamedTuple):
    """Means over the steps since the look before, and the losses against the best one."""

    step: int
    reward: float
    values: Mapping[str, float]
    """Statistic → mean; the held-out judge's under `held_out`."""
    losses: Mapping[str, float]
    """Statistic → loss; empty for the first look, and while the reward has not risen."""

    @property
    def loss(self) -> float:
        return sum(self.losses.values())


class HackingAlarm:
    """Detector that takes one `StepStats` per step, in order, and fires at most once."""

    def __init__(self, statistics: Sequence[Statistic] = TEXT_STATISTICS, *, probe_every: int | None = None) -> None:
        """
        Args:
            statistics: those that are weighed or shown; a step without the value of one counts for nothing.
            probe_every: steps between two probes, at each of which the alarm looks; None without a probe.
        """
        self.statistics = tuple(statistics)
        self.every = probe_every or LOOK
        self.alarm: Alarm | None = None
        self.looks: list[Look] = []
        self._is_probed = probe_every is not None
        self._probes: dict[int, tuple[float | None, ...]] = {}
        self._since: list[StepStats] = []

    @property
    def outcome(self) -> Alarm:
        """The alarm, silence, or a training that is too short to decide."""
        if self.alarm is not None:
            return self.alarm
        return Alarm(state="silent" if len(self.looks) > PATIENCE else "too_short")

    @property
    def best_step(self) -> int | None:
        """Last step at which the policy was best by the held-out judge, or else by the first weighted statistic; None
        without either.
        """
        if self._probes:
            return _last_best({step: _mean(scores) for step, scores in self._probes.items()})
        weighed = next((statistic for statistic in self.statistics if statistic.rule != "shown"), None)
        if weighed is None:
            return None
        return _last_best({look.step: weighed.sign * look.values[weighed.name] for look in self.looks})

    @property
    def averaged_loss(self) -> float:
        """Loss averaged over the last looks, which the limit is for."""
        recent = self.looks[-PATIENCE:]
        return sum(look.loss for look in recent) / PATIENCE

    def update(self, stats: StepStats) -> Alarm | None:
        """Return the alarm if it fires at this step, else None (also after it has fired)."""
        if stats.held_out:
            self._probes[stats.step - 1] = stats.held_out
        fires = False
        # A probe without an answer is no reason to look no more.
        if self._since and (stats.held_out or stats.step - self._since[0].step >= self.every):
            fires = self._look(stats.step)
        self._since.append(stats)
        if not self._is_probed and stats.step - self._since[0].step + 1 >= self.every:
            fires = self._look(stats.step)
        return self.alarm if fires else None

    def _look(self, now: int) -> bool:
        """Look at the steps since the last look; return True if the alarm fires at this step."""
        steps, self._since = self._since, []
        values = {
            statistic.name: mean_present([stats.values.get(statistic.name, math.nan) for stats in steps])
            for statistic in self.statistics
        }
        if self._probes:
            values[HELD_OUT] = _mean(list(self._probes.values())[-1])
        reward = mean_present([stats.reward for stats in steps])
        has_risen = reward - self._first_reward > GAIN
        losses = self._losses(values) if has_risen else {}
        self.looks.append(Look(steps[-1].step, reward, values, losses))
        if self.alarm is not None or len(self.looks) <= PATIENCE or self.averaged_loss <= LIMIT:
            return False
        self.alarm = Alarm(step=now, reasons=tuple(self._reasons()), onset=self.best_step)
        return True

    def _losses(self, values: Mapping[str, float]) -> dict[str, float]:
        losses = {}
        for statistic in self.statistics:
            before = self._before(statistic.name)
            now = values[statistic.name]
            if before and not math.isnan(now) and (loss := statistic.loss(before, now)):
                losses[statistic.name] = loss
        if len(self._probes) > 1:
            losses[HELD_OUT] = held_out_loss(list(self._probes.values()))
        return losses

    def _before(self, name: str) -> list[float]:
        """Values of a statistic at the looks so far."""
        return [value for look in self.looks if not math.isnan(value := look.values[name])]

    def _reasons(self) -> list[str]:
        look, statistics = self.looks[-1], {statistic.name: statistic for statistic in self.statistics}
        reasons = []
        for name, loss in sorted(look.losses.items(), key=lambda entry: -entry[1]):
            if loss <= 0:
                continue
            if name == HELD_OUT:
                words, start = "the held-out judge fell", max(map(_rank, map(_mean, self._probes.values())))
            else:
                words, start = f"{statistics[name].words} went", statistics[name].reference(self._before(name))
            reasons.append(f"{words} from {start:.2f} to {look.values[name]:.2f}")
        reasons.append(f"while reward rose from {self._first_reward:.2f} to {look.reward:.2f}")
        return reasons

    @property
    def _first_reward(self) -> float:
        return next((look.reward for look in self.looks if not math.isnan(look.reward)), math.nan)


def held_out_loss(probes: Sequence[Sequence[float | None]]) -> float:
    """Mean fall of the last probe's scores from the best earlier probe's, over the samples that both have scores of.

    0 unless the paired t interval lies above 0, at 95 % divided by the number of probes compared (Bonferroni).
    """
    earlier, last = probes[:-1], probes[-1]
    best = max(earlier, key=lambda scores: _rank(_mean(scores)))
    falls = [a - b for a, b in zip(best, last, strict=False) if a is not None and b is not None]
    if not falls:
        return 0.0
    fall = t_interval(falls, 1 - 0.05 / len(earlier))
    return fall.value if fall.low is not None and (fall.low > 0 or fall.value < 0) else 0.0


def mean_present(values: Sequence[float]) -> float:
    """Mean of the values that are no NaN; NaN if there are none."""
    present = [value for value in values if not math.isnan(value)]
    return fmean(present) if present else math.nan


def _mean(scores: Sequence[float | None]) -> float:
    return mean_present([score for score in scores if score is not None])


def _last_best(scores: Mapping[int, float]) -> int | None:
    """Last step with the highest score; None without scores."""
    present = {step: score for step, score in scores.items() if not math.isnan(score)}
    return max(present, key=lambda step: (present[step], step)) if present else None


def held_out_mean(stats: StepStats) -> tuple[int, float]:
    """(step, mean score by the held-out judge) of the policy before a step; NaN at steps without a probe."""
    return stats.step - 1, _mean(stats.held_out)


def _rank(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def read_step(row: Mapping[str, Any]) -> StepStats:
    """Statistics of a step from a line of `steps.jsonl`. Values that are not numbers count as missing."""
    scores = row.get("held_out")
    held_out = tuple(_number(score) for score in scores) if isinstance(scores, list) else ()
    figures = {
        name: float(value) if isinstance(value, int | float) else math.nan
        for name, value in row.items()
        if name not in ("step", "held_out")
    }
    return StepStats(int(row["step"]), figures.pop("reward", math.nan), figures, held_out)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def step_stats(
    step: int,
    responses: Sequence[str | Response],
    tokens: Sequence[int],
    rewards: Sequence[float | None],
    held_out: Sequence[float | None] = (),
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
        held_out=tuple(held_out),
    )


def _mean_of(statistic: Statistic, rollouts: Sequence[tuple[Response, int]], group_size: int) -> float:
    if statistic.of_groups is None:
        return mean_present([statistic.measure(*rollout) for rollout in rollouts])
    responses = [response for response, _ in rollouts]
    return statistic.of_groups([responses[at : at + group_size] for at in range(0, len(responses), group_size)])
