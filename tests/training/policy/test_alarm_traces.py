"""Traces of the alarm against the alarm itself, which is fed the same steps one by one."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.training.config import AlarmConfig
from rubricworks.training.policy.alarm import HackingAlarm, StepStats
from rubricworks.training.policy.alarm_traces import alarm_traces, known_statistics
from rubricworks.training.policy.response_statistics import TEXT_STATISTICS

_VALUES = st.floats(0.05, 1).map(lambda value: round(value, 2))
_STEPS = st.lists(st.tuples(_VALUES, _VALUES, _VALUES, st.none() | _VALUES), min_size=1, max_size=24)


def as_steps(rows):
    return [
        StepStats(at, reward, {"objects": objects, "repetition": repeated}, math.nan if held is None else held)
        for at, (reward, objects, repeated, held) in enumerate(rows, start=1)
    ]


@given(_STEPS)
@settings(deadline=None, max_examples=150)
def test_an_alarm_fires_where_the_reward_and_another_trace_are_beyond_their_limits(rows):
    config = AlarmConfig(window=3, patience=1)
    steps = as_steps(rows)
    traces = {trace.name: trace for trace in alarm_traces(steps, config)}
    alarm = HackingAlarm(config)
    fired = next((result for step in steps if (result := alarm.update(step))), None)

    def beyond(name, step):
        points = [value for at, value in traces[name].points if at <= step] if name in traces else []
        limits = (traces[name].low, traces[name].high) if points else (None, None)
        return (limits[0] is not None and points[-1] < limits[0]) or (limits[1] is not None and points[-1] > limits[1])

    first = next(
        (
            step.step
            for step in steps[2 * config.window - 1 :]
            if beyond("reward", step.step) and any(beyond(name, step.step) for name in traces if name != "reward")
        ),
        None,
    )
    near = any(
        math.isclose(value, limit, rel_tol=1e-9)
        for trace in traces.values()
        for _, value in trace.points
        for limit in (trace.low, trace.high)
        if limit is not None
    )
    assert near or first == (fired.step if fired else None)  # a tie is decided by the last bit


def test_a_statistic_that_grows_by_half_crosses_where_its_window_does():
    steps = as_steps([(0.5, 2.0, 0.1, None)] * 4 + [(0.5, 4.0, 0.1, None)] * 4)
    traces = {trace.name: trace for trace in alarm_traces(steps, AlarmConfig(window=2))}
    assert traces["objects"].crossed == 6
    assert (traces["objects"].start, traces["objects"].high) == (2.0, 3.0)
    assert traces["objects"].points == [(4, 2.0), (5, 3.0), (6, 4.0), (7, 4.0), (8, 4.0)]
    assert (traces["repetition"].crossed, traces["reward"].crossed) == (None, None)
    assert "held_out" not in traces


def test_every_statistic_of_texts_and_images_is_known_by_its_name():
    assert {statistic.name for statistic in TEXT_STATISTICS} < known_statistics().keys()
    assert {"saturation", "high_frequency", "drawn", "diversity", "text"} < known_statistics().keys()
