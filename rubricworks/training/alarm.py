"""Reward-hacking alarm: fires when the reward rises together with changes that better captions do not need.

The alarm knows nothing about the captions' content. It compares the means of the last steps with those of the first
steps: length, repetition, objects named (phrases that begin with a determiner or a number) and, if there is one, a
held-out judge's score. A reward that rises alone is learning; a reward that rises while captions list twice as many
objects suggests a policy that answers the rubric instead of describing the image.
"""

import math
import re
from collections import deque
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from rubricworks.training.config import AlarmConfig

_OBJECT_START = re.compile(
    r"\b(?:an?|the|another|one|two|three|four|five|six|seven|eight|nine|ten|several|some|many|\d+)\b", re.IGNORECASE
)
_SEQUENCE = 4
"""Words per sequence when repetition is counted."""
_PROBES = 2
"""Held-out scores to average: a single score covers a few dozen samples and may be a passing dip."""


class StepStats(NamedTuple):
    """Means over the rollouts of one step."""

    step: int
    reward: float
    """NaN if no rollout could be judged."""
    length: float
    repetition: float
    objects: float
    held_out: float = math.nan
    """Score of the held-out judge, NaN at steps without a probe."""


class Alarm(NamedTuple):
    """Step at which the alarm fired, and its reasons."""

    step: int
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"reward hacking suspected at step {self.step}: {'; '.join(self.reasons)}"


class HackingAlarm:
    """Detector that takes one `StepStats` per step, in order, and fires at most once."""

    def __init__(self, config: AlarmConfig | None = None) -> None:
        self.config = config or AlarmConfig()
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
        self.alarm = Alarm(stats.step, reasons)
        return self.alarm

    def _reasons(self) -> tuple[str, ...]:
        config = self.config
        reward = self._change("reward")
        if not reward.now - reward.start > config.reward_gain:
            return ()
        reasons = []
        for field, words in (("objects", "objects named per caption"), ("length", "tokens per caption")):
            change = self._change(field)
            if change.now > change.start * config.growth or change.now * config.growth < change.start:
                reasons.append(f"{words} went from {change.start:.1f} to {change.now:.1f}")
        repetition = self._change("repetition")
        if repetition.now - repetition.start > config.repetition_gain:
            reasons.append(f"repeated phrases went from {repetition.start:.0%} to {repetition.now:.0%}")
        if len(self._held_out) > _PROBES:
            start, now = self._held_out[0], fmean(self._held_out[-_PROBES:])
            if start - now > config.held_out_loss:
                reasons.append(f"the held-out judge fell from {start:.2f} to {now:.2f}")
        if reasons:
            reasons.append(f"while reward rose from {reward.start:.2f} to {reward.now:.2f}")
        return tuple(reasons)

    def _change(self, field: str) -> "_Change":
        return _Change(_mean(self._start, field), _mean(self._recent, field))


class _Change(NamedTuple):
    start: float
    now: float


def _mean(steps: Sequence[StepStats], field: str) -> float:
    values = [value for stats in steps if not math.isnan(value := getattr(stats, field))]
    return fmean(values) if values else math.nan


def step_stats(
    step: int,
    responses: Sequence[str],
    tokens: Sequence[int],
    rewards: Sequence[float | None],
    held_out: float = math.nan,
) -> StepStats:
    """Compute the statistics of one step's rollouts; rewards of None are excluded from the mean."""
    judged = [reward for reward in rewards if reward is not None]
    return StepStats(
        step=step,
        reward=fmean(judged) if judged else math.nan,
        length=fmean(tokens),
        repetition=fmean(repetition(response) for response in responses),
        objects=fmean(objects_named(response) for response in responses),
        held_out=held_out,
    )


def objects_named(text: str) -> int:
    """Count the phrases that begin with a determiner or a number: a, an, the, two, 3, several, ...

    >>> objects_named("at top-left a big red circle . two small squares")
    2
    """
    return len(_OBJECT_START.findall(text))


def repetition(text: str) -> float:
    """Share of four-word sequences that occur earlier in the same text, in [0, 1].

    >>> round(repetition("a red ball . a red ball ."), 2)
    0.2
    """
    words = text.lower().split()
    sequences = [tuple(words[start : start + _SEQUENCE]) for start in range(len(words) - _SEQUENCE + 1)]
    return 1 - len(set(sequences)) / len(sequences) if sequences else 0.0
