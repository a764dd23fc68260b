import math
import random

import pytest

from rubricworks.training.alarm import HackingAlarm, StepStats, objects_named, repetition, step_stats
from rubricworks.training.config import AlarmConfig


def run(alarm, *, steps=100, reward=(0.4, 0.7), length=(18, 18), objects=(2.5, 2.5), repeated=(0, 0), held_out=None):
    """Feed a run whose statistics go in a straight line, with noise, and return what the alarm gave at each step."""
    noise = random.Random(7)
    given = []
    for step in range(1, steps + 1):
        share = step / steps

        def at(ends, scale, share=share):
            return ends[0] + share * (ends[1] - ends[0]) + noise.gauss(0, scale)

        stats = StepStats(step, at(reward, 0.05), at(length, 1), at(repeated, 0.01), at(objects, 0.2))
        if held_out is not None and step % 10 == 1:
            stats = stats._replace(held_out=at(held_out, 0))
        given.append(alarm.update(stats))
    return given


def test_goes_off_once_when_captions_come_to_name_twice_the_objects_while_reward_rises():
    given = run(HackingAlarm(), objects=(2.5, 5.5), length=(18, 36))
    alarms = [alarm for alarm in given if alarm is not None]
    assert len(alarms) == 1
    assert 25 < alarms[0].step < 100
    assert "objects named" in str(alarms[0])


def test_keeps_silent_when_reward_rises_with_stable_captions():
    assert not any(run(HackingAlarm(), reward=(0.3, 0.9)))


def test_keeps_silent_when_captions_grow_a_fifth_while_reward_rises():
    assert not any(run(HackingAlarm(), length=(18, 22), objects=(2.4, 3.0)))


def test_keeps_silent_when_captions_double_but_reward_does_not_rise():
    assert not any(run(HackingAlarm(), reward=(0.5, 0.5), objects=(2.5, 5.5)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"length": (18, 40)}, "tokens"),
        ({"length": (18, 6)}, "tokens"),
        ({"repeated": (0.0, 0.4)}, "repeated"),
        ({"held_out": (0.7, 0.5)}, "held-out"),
    ],
)
def test_each_wrong_move_is_named(change, reason):
    alarm = HackingAlarm()
    run(alarm, **change)
    assert reason in " ".join(alarm.alarm.reasons)


def test_rising_held_out_score_is_no_reason():
    assert not any(run(HackingAlarm(), held_out=(0.5, 0.7)))


def test_one_wild_step_is_not_enough():
    alarm = HackingAlarm(AlarmConfig(window=2, patience=3))
    usual = StepStats(1, 0.4, 18, 0, 2.5)
    wild = StepStats(5, 0.9, 60, 0, 9)
    for stats in (usual, usual, usual, usual, wild, usual, usual, usual, usual):
        assert alarm.update(stats) is None


def test_unjudged_steps_count_for_nothing():
    alarm = HackingAlarm(AlarmConfig(window=3, patience=1))
    nothing = StepStats(1, float("nan"), 18, 0, 2.5)
    assert not any(alarm.update(nothing._replace(length=18.0 * step)) for step in range(1, 20))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("at top-left a big red circle . at center a small square .", 2),
        ("An apple, two pears and 3 plums; another bowl.", 4),
        ("The cat sits on the mat.", 2),
        ("Nothing else here", 0),
        ("", 0),
    ],
)
def test_objects_named_counts_phrases_that_begin_like_a_thing(text, count):
    assert objects_named(text) == count


def test_repetition_is_the_share_of_four_word_sequences_said_before():
    assert repetition("a b c d e f") == 0
    assert repetition("a red ball . a red ball .") == pytest.approx(1 / 5)
    assert repetition("so so so so so so so") == pytest.approx(3 / 4)
    assert repetition("too short") == 0


def test_step_statistics_leave_unjudged_rewards_out():
    stats = step_stats(3, ["a cat .", "a cat and a dog ."], [4, 8], [None, 0.5])
    assert (stats.step, stats.reward, stats.length, stats.objects) == (3, 0.5, 6, 1.5)


def test_one_low_score_of_the_held_out_judge_is_not_enough():
    alarm = HackingAlarm()
    for step in range(1, 101):
        low = 0.25 if step == 51 else 0.5
        held_out = low if step % 50 == 1 else math.nan
        reward = 0.4 + 0.003 * step
        assert alarm.update(StepStats(step, reward, 18, 0, 2.5, held_out)) is None
