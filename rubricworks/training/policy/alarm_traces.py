"""Traces of the hacking alarm: the loss that it weighs, with its limit, and each statistic, over a training."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rubricworks.training.policy.alarm import HELD_OUT, LIMIT, LOOK, PATIENCE, HackingAlarm, Look, StepStats
from rubricworks.training.policy.response_statistics import TEXT_STATISTICS, Statistic

LOSS = "loss"
REWARD = "reward"


class Trace(NamedTuple):
    """One figure at each look."""

    name: str
    words: str
    points: list[tuple[int, float]]
    """(step, mean over the steps since the look before)."""
    start: float
    """Mean at the first look."""
    high: float | None = None
    """Limit of the alarm."""
    crossed: int | None = None
    """First step beyond it."""


class Traces(NamedTuple):
    """The alarm's view of a training."""

    every: int
    """Steps between two looks."""
    least_steps: int
    """Number of steps before which the alarm cannot fire."""
    traces: list[Trace]


def known_statistics() -> Mapping[str, Statistic]:
    """Every statistic by its name in `steps.jsonl`."""
    from rubricworks.training.generators.image_statistics import DIVERSITY, IMAGE_STATISTICS, text_statistic

    covered = text_statistic(lambda _: None)
    return {statistic.name: statistic for statistic in (*TEXT_STATISTICS, *IMAGE_STATISTICS, DIVERSITY, covered)}


def probe_interval(steps: Sequence[StepStats]) -> int | None:
    """Steps between two probes of a training, from its statistics; None without a probe."""
    probed = [stats.step for stats in steps if stats.held_out]
    if not probed:
        return None
    return probed[1] - probed[0] if len(probed) > 1 else max(LOOK, steps[-1].step - probed[0] + 1)


def alarm_traces(steps: Sequence[StepStats], statistics: Sequence[Statistic] = TEXT_STATISTICS) -> Traces:
    """Replay the alarm. Traces of its loss, the reward, the held-out judge and the statistics; empty ones are left out.

    The loss comes first, averaged as the limit is for.
    """
    alarm, losses = HackingAlarm(statistics, probe_every=probe_interval(steps)), list[tuple[int, float]]()
    for stats in steps:
        looks = len(alarm.looks)
        alarm.update(stats)
        if len(alarm.looks) > max(looks, PATIENCE):
            losses.append((alarm.looks[-1].step, alarm.averaged_loss))
    crossed = next((step for step, loss in losses if loss > LIMIT), None)
    loss = [Trace(LOSS, "loss beside the reward", losses, losses[0][1], LIMIT, crossed)] if losses else []
    reward = _trace(REWARD, "reward", [(look.step, look.reward) for look in alarm.looks])
    words = {HELD_OUT: "held-out judge"} | {statistic.name: statistic.words for statistic in alarm.statistics}
    others = [_trace(name, text, _points(alarm.looks, name)) for name, text in words.items()]
    traces = [*loss, *(trace for trace in (reward, *others) if trace)]
    return Traces(alarm.every, (PATIENCE + 1) * alarm.every, traces)


def _points(looks: Sequence[Look], name: str) -> list[tuple[int, float]]:
    return [(look.step, look.values.get(name, math.nan)) for look in looks]


def _trace(name: str, words: str, points: Sequence[tuple[int, float]]) -> Trace | None:
    present = [(step, value) for step, value in points if not math.isnan(value)]
    return Trace(name, words, present, present[0][1]) if present else None
