import math
import random

import pytest

from rubricworks.errors import UserError
from rubricworks.rubrics import Response
from rubricworks.training.config import AlarmConfig
from rubricworks.training.policy.alarm import HackingAlarm, StepStats, step_stats
from rubricworks.training.policy.response_statistics import (
    LENGTH,
    TEXT_STATISTICS,
    Statistic,
    objects_named,
    repetition,
)


def of_texts(step, reward, length, repeated, objects, held_out=math.nan) -> StepStats:
    return StepStats(step, reward, {"objects": objects, "length": length, "repetition": repeated}, held_out)


def run(alarm, *, steps=100, reward=(0.4, 0.7), length=(18, 18), objects=(2.5, 2.5), repeated=(0, 0), held_out=None):
    """Feed a run whose statistics go in a straight line, with noise, and return what the alarm gave at each step."""
    noise = random.Random(7)
    alarms = []
    for step in range(1, steps + 1):
        share = step / steps

        def at(ends, scale, share=share):
            return ends[0] + share * (ends[1] - ends[0]) + noise.gauss(0, scale)

        stats = of_texts(step, at(reward, 0.05), at(length, 1), at(repeated, 0.01), at(objects, 0.2))
        if held_out is not None and step % 10 == 1:
            stats = stats._replace(held_out=at(held_out, 0))
        alarms.append(alarm.update(stats))
    return alarms


def test_alarm_fires_once_when_captions_name_twice_the_objects():
    args = run(HackingAlarm(), objects=(2.5, 5.5), length=(18, 36))
    alarms = [alarm for alarm in args if alarm is not None]
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
    usual = of_texts(1, 0.4, 18, 0, 2.5)
    wild = of_texts(5, 0.9, 60, 0, 9)
    for stats in (usual, usual, usual, usual, wild, usual, usual, usual, usual):
        assert alarm.update(stats) is None


def test_unjudged_steps_count_for_nothing():
    alarm = HackingAlarm(AlarmConfig(window=3, patience=1))
    assert not any(alarm.update(of_texts(1, math.nan, 18.0 * step, 0, 2.5)) for step in range(1, 20))


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
    assert (stats.step, stats.reward) == (3, 0.5)
    assert stats.values == {"objects": 1.5, "length": 6, "repetition": 0}


def test_one_low_score_of_the_held_out_judge_is_not_enough():
    alarm = HackingAlarm()
    for step in range(1, 101):
        low = 0.25 if step == 51 else 0.5
        held_out = low if step % 50 == 1 else math.nan
        reward = 0.4 + 0.003 * step
        assert alarm.update(of_texts(step, reward, 18, 0, 2.5, held_out)) is None


SIZE = Statistic("size", "bytes per image", lambda response, _: len(response.image), "factor")
GREY = Statistic("grey", "grey pixels", lambda response, _: response.image.count(7) / len(response.image), "rise")


def test_a_method_names_the_statistics_of_its_own_responses():
    images = [Response.of_image(b"\x07" * 3 + b"x"), Response.of_image(b"x" * 8)]
    stats = step_stats(1, images, [1, 1], [0.5, 0.5], statistics=(SIZE, GREY))
    assert stats.values == {"size": 6, "grey": 0.375}


@pytest.mark.parametrize(
    ("grow", "reason"),
    [
        (lambda share: b"x" * round(8 + 24 * share), "bytes per image went from 8.0 to 32.0"),
        (lambda share: b"x" * (8 - 4 * round(share)) + b"\x07" * (4 * round(share)), "grey pixels went from 0% to 50%"),
    ],
)
def test_alarm_fires_on_a_change_of_any_named_statistic(grow, reason):
    alarm = HackingAlarm(AlarmConfig(window=2, patience=1), (SIZE, GREY))
    for step, share in enumerate((0, 0, 1, 1)):
        image = Response.of_image(grow(share))
        alarm.update(step_stats(step, [image], [1], [0.4 + 0.4 * share], statistics=(SIZE, GREY)))
    assert alarm.alarm.reasons == (reason, "while reward rose from 0.40 to 0.80")


def test_a_statistic_that_is_not_named_is_no_reason():
    alarm = HackingAlarm(AlarmConfig(window=2, patience=1), (LENGTH,))
    for step, reward in enumerate((0.4, 0.4, 0.8, 0.8, 0.8)):
        assert alarm.update(of_texts(step, reward, 18, 0.9 * (reward > 0.5), 90 * reward)) is None


def test_statistics_of_texts_refuse_images_by_name():
    with pytest.raises(
        UserError, match="the statistic 'objects' of a training step reads text, and the response is an"
    ):
        step_stats(1, [Response.of_image(b"x")], [1], [0.5], statistics=TEXT_STATISTICS)
