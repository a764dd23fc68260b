"""Traces of the alarm against the alarm itself, which is fed the same steps one by one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.training.policy.alarm import LIMIT, HackingAlarm, StepStats
from rubricworks.training.policy.alarm_traces import alarm_traces, known_statistics, probe_interval
from rubricworks.training.policy.response_statistics import TEXT_STATISTICS

_VALUES = st.floats(0.05, 1).map(lambda value: round(value, 2))
_LEVELS = st.lists(st.tuples(_VALUES, _VALUES, _VALUES, _VALUES), min_size=1, max_size=7)


def as_steps(levels, *, probed):
    """Ten steps of each level: (reward, specificity, repetition, held out)."""
    return [
        StepStats(
            10 * at + number,
            reward,
            {"specificity": specificity, "repetition": repeated},
            (held_out, held_out - 0.01, held_out + 0.01) if probed and number == 1 else (),
        )
        for at, (reward, specificity, repeated, held_out) in enumerate(levels)
        for number in range(1, 11)
    ]


@given(_LEVELS, st.booleans())
@settings(deadline=None, max_examples=100)
def test_the_alarm_fires_where_the_trace_of_its_loss_crosses_the_limit(levels, probed):
    steps = as_steps(levels, probed=probed)
    replayed = alarm_traces(steps)
    alarm = HackingAlarm(probe_every=10 if probed else None)
    # A look that a probe sets is at the first step after those that it looks at.
    fired = [given.step - probed for step in steps if (given := alarm.update(step))]
    crossed = [trace.crossed for trace in replayed.traces if trace.crossed is not None]
    assert crossed == fired
    assert [trace.high for trace in replayed.traces if trace.name == "loss"] in ([], [LIMIT])


def test_traces_have_the_means_of_each_look_and_leave_out_what_has_no_value():
    levels = [(0.5, 0.4, 0.1, 0.6), (0.7, 0.5, 0.2, 0.5), (0.9, 0.6, 0.1, 0.4), (0.9, 0.6, 0.1, 0.4)]
    replayed = alarm_traces(as_steps(levels, probed=True))
    traces = {trace.name: trace for trace in replayed.traces}
    assert (replayed.every, replayed.least_steps) == (10, 30)
    assert [step for step, _ in traces["reward"].points] == [10, 20, 30]
    assert [round(value, 6) for _, value in traces["specificity"].points] == [0.4, 0.5, 0.6]
    assert [round(value, 6) for _, value in traces["held_out"].points] == [0.5, 0.4, 0.4]
    assert "length" not in traces
    assert "held_out" not in {trace.name for trace in alarm_traces(as_steps(levels, probed=False)).traces}


def test_the_steps_between_probes_follow_from_the_statistics():
    levels = [(0.5, 0.4, 0.1, 0.6)] * 3
    assert probe_interval(as_steps(levels, probed=True)) == 10
    assert probe_interval(as_steps(levels, probed=False)) is None
    assert probe_interval(as_steps(levels[:1], probed=True)) == 10


def test_every_statistic_of_texts_and_images_is_known_by_its_name():
    assert {statistic.name for statistic in TEXT_STATISTICS} < known_statistics().keys()
    assert {"saturation", "high_frequency", "drawn", "diversity", "text"} < known_statistics().keys()
