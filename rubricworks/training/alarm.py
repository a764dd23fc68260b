"""The hacking alarm: reward rises while the captions change in a way that a better caption would not need.

It knows nothing of what the captions are about. It compares the mean of the last steps with that of the first ones, in
length, repetition, objects named (phrases that begin with a determiner or a number), and a held-out judge's score
where there is one. A reward that rises alone is learning; a reward that rises while captions list twice the objects is
the policy reading its rubric instead of the picture.
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
"""Words in a sequence whose repetition counts."""
_PROBES = 2
"""Held-out scores that are averaged: one alone, of a few dozen samples and perhaps a passing dip, proves nothing."""


class StepStats(NamedTuple):
    """Means over the rollouts of one step."""

    step: int
    reward: float
    """NaN when no rollout could be judged."""
    length: float
    repetition: float
    objects: float
    held_out: float = math.nan
    """NaN at the steps where the held-out judge was not asked."""


class Alarm(NamedTuple):
    """The step at which the policy was caught, and what moved the wrong way."""

    step: int
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"reward hacking suspected at step {self.step}: {'; '.join(self.reasons)}"


class HackingAlarm:
    """Fed one `StepStats` per step in order; gives its `Alarm` once, at the step where it goes off."""

    def __init__(self, config: AlarmConfig | None = None) -> None:
        self.config = config or AlarmConfig()
        self.alarm: Alarm | None = None
        self._start: list[StepStats] = []
        self._recent: deque[StepStats] = deque(maxlen=self.config.window)
        self._held_out: list[float] = []
        self._suspicious_steps = 0

    def update(self, stats: StepStats) -> Alarm | None:
        """The alarm if this step sets it off, else None (also after it has gone off)."""
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
    """The statistics of one step's rollouts; rewards that could not be judged stay out of the mean."""
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
    """Count the phrases that begin as the name of a thing does: a, an, the, two, 3, several, ...

    >>> objects_named("at top-left a big red circle . two small squares")
    2
    """
    return len(_OBJECT_START.findall(text))


def repetition(text: str) -> float:
    """Share of four-word sequences that were said before in the same text, in [0, 1].

    >>> round(repetition("a red ball . a red ball ."), 2)
    0.2
    """
    words = text.lower().split()
    sequences = [tuple(words[start : start + _SEQUENCE]) for start in range(len(words) - _SEQUENCE + 1)]
    return 1 - len(set(sequences)) / len(sequences) if sequences else 0.0
