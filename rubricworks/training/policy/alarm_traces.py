"""Traces of the hacking alarm: each statistic that it watches over a training, with the limit that it may not pass.

The alarm says when it fired; a trace says how near each statistic was, and where it crossed its limit first. A crossing
alone is no alarm: the reward has to rise meanwhile, for several steps.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from rubricworks.training.config import AlarmConfig
from rubricworks.training.policy.alarm import PROBES, StepStats, mean_present
from rubricworks.training.policy.response_statistics import TEXT_STATISTICS, Statistic

HELD_OUT = "held_out"
REWARD = "reward"


class Trace(NamedTuple):
    """One statistic over a training."""

    name: str
    words: str
    points: list[tuple[int, float]]
    """(step, mean over the window that ends there), from the first step at which the alarm compares."""
    start: float
    """Mean over the first window."""
    low: float | None
    """Limit below which it is suspicious."""
    high: float | None
    crossed: int | None
    """First step beyond a limit."""


def known_statistics() -> Mapping[str, Statistic]:
    """Every statistic by its name in `steps.jsonl`."""
    from rubricworks.training.generators.image_statistics import DIVERSITY, IMAGE_STATISTICS, text_statistic

    covered = text_statistic(lambda _: None)
    return {statistic.name: statistic for statistic in (*TEXT_STATISTICS, *IMAGE_STATISTICS, DIVERSITY, covered)}


def alarm_traces(
    steps: Sequence[StepStats], config: AlarmConfig, statistics: Sequence[Statistic] = TEXT_STATISTICS
) -> list[Trace]:
    """Traces of the reward, the statistics and the held-out judge; those without values are left out."""
    traces = [_windowed(REWARD, "reward", [(step.step, step.reward) for step in steps], config, "reward")]
    for statistic in statistics:
        values = [(step.step, step.values.get(statistic.name, math.nan)) for step in steps]
        traces.append(_windowed(statistic.name, statistic.words, values, config, statistic.rule))
    traces.append(_held_out(steps, config))
    return [trace for trace in traces if trace is not None]


def _windowed(
    name: str, words: str, values: Sequence[tuple[int, float]], config: AlarmConfig, rule: str
) -> Trace | None:
    start = mean_present([value for _, value in values[: config.window]])
    if math.isnan(start):
        return None
    points = []
    for end in range(2 * config.window, len(values) + 1):
        mean = mean_present([value for _, value in values[end - config.window : end]])
        if not math.isnan(mean):
            points.append((values[end - 1][0], mean))
    match rule:
        case "factor":
            return _trace(name, words, points, start, start / config.growth, start * config.growth)
        case "collapse":
            return _trace(name, words, points, start, config.collapse * start, None)
        case "reward":
            return _trace(name, words, points, start, None, start + config.reward_gain)
        case _:
            return _trace(name, words, points, start, None, start + config.repetition_gain)


def _held_out(steps: Sequence[StepStats], config: AlarmConfig) -> Trace | None:
    probes = [(step.step, step.held_out) for step in steps if not math.isnan(step.held_out)]
    if not probes:
        return None
    points = [
        (probes[end - 1][0], fmean(value for _, value in probes[end - PROBES : end]))
        for end in range(PROBES + 1, len(probes) + 1)
    ]
    start = probes[0][1]
    return _trace(HELD_OUT, "the held-out judge", points, start, start - config.held_out_loss, None)


def _trace(
    name: str, words: str, points: list[tuple[int, float]], start: float, low: float | None, high: float | None
) -> Trace:
    crossed = next(
        (step for step, value in points if (low is not None and value < low) or (high is not None and value > high)),
        None,
    )
    return Trace(name, words, points, start, low, high, crossed)
