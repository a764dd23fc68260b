"""The hacking alarm on runs whose figures are known, and its statistics on texts."""

import math
import random

import pytest

from rubricworks.errors import UserError
from rubricworks.rubrics import Response
from rubricworks.training.policy.alarm import HackingAlarm, StepStats, held_out_loss, read_step, step_stats
from rubricworks.training.policy.response_statistics import (
    LENGTH,
    REPETITION,
    TEXT_STATISTICS,
    Statistic,
    objects_named,
    repetition,
    specificity,
)

SAMPLES = 64


def run(alarm, *, steps=60, reward=(0.4, 0.7), held_out=None, **ends):
    """Feed a run whose figures go in a straight line, with noise; return the alarms that it gave."""
    noise, alarms = random.Random(7), []
    ends = {"specificity": (0.5, 0.5), "repetition": (0.05, 0.05), "length": (18, 18), "objects": (3, 3)} | ends
    hard = [noise.gauss(0, 0.2) for _ in range(SAMPLES)]
    for step in range(1, steps + 1):

        def at(span, scale, share=(step - 1) / steps):
            return span[0] + share * (span[1] - span[0]) + noise.gauss(0, scale)

        values = {name: at(span, 0.02 * max(span)) for name, span in ends.items()}
        stats = StepStats(step, at(reward, 0.02), values)
        if held_out is not None and step % alarm.every == 1:
            stats = stats._replace(held_out=tuple(at(held_out, 0.15) + part for part in hard))
        alarms.append(alarm.update(stats))
    return [given for given in alarms if given is not None]


def test_alarm_fires_once_and_names_what_was_lost_and_since_when():
    alarm = HackingAlarm()
    (fired,) = run(alarm, specificity=(0.5, 0.1))
    assert 20 < fired.step < 60
    assert fired.onset == 10
    assert fired.reasons[0].startswith("likeness to responses to the same image went from 0.4")
    assert fired.reasons[-1].startswith("while reward rose from 0.4")
    assert alarm.outcome == fired


def test_sound_runs_that_grow_shrink_or_stop_repeating_are_silent():
    for sound in (
        {"length": (9, 40), "objects": (1, 6)},
        {"length": (40, 9), "objects": (6, 2)},
        {"repetition": (0.4, 0.0), "length": (30, 15)},
        {"specificity": (0.3, 0.6)},
    ):
        alarm = HackingAlarm()
        assert run(alarm, **sound) == [], sound
        assert alarm.outcome.state == "silent"


def test_what_is_lost_without_a_rise_of_the_reward_is_no_hacking():
    assert run(HackingAlarm(), reward=(0.5, 0.5), specificity=(0.5, 0.1)) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"repetition": (0.0, 0.5)}, "repeated phrases"),
        ({"held_out": (0.7, 0.2)}, "the held-out judge fell from 0.7"),
    ],
)
def test_each_loss_alone_can_fire_and_is_named(change, reason):
    alarm = HackingAlarm(probe_every=10 if "held_out" in change else None)
    (fired,) = run(alarm, **change)
    assert fired.reasons[0].startswith(reason)


def test_losses_add_up():
    halves = {"repetition": (0.0, 0.24), "held_out": (0.6, 0.34)}
    for name, span in halves.items():
        assert run(HackingAlarm(probe_every=10), **{name: span}) == [], name
    assert len(run(HackingAlarm(probe_every=10), **halves)) == 1


def test_a_loss_counts_from_the_best_look_not_from_the_start():
    alarm = HackingAlarm(probe_every=10)
    assert run(alarm, steps=60, held_out=(0.2, 0.8)) == []
    best = alarm.best_step
    for step in range(61, 121):
        stats = StepStats(step, 0.8, alarm.looks[-1].values)
        scores = (0.3,) * SAMPLES if step % 10 == 1 else ()
        alarm.update(stats._replace(held_out=scores))
    assert alarm.alarm.onset == best == 50
    assert alarm.alarm.step <= 80


def test_a_fall_of_the_held_out_judge_counts_only_beyond_chance():
    generator = random.Random(3)
    falls, trials = 0, 400
    for _ in range(trials):
        hard = [generator.gauss(0.5, 0.2) for _ in range(32)]
        probes = [[part + generator.gauss(0, 0.2) for part in hard] for _ in range(8)]
        falls += any(held_out_loss(probes[: at + 1]) > 0 for at in range(1, 8))
    # The best of the earlier probes is partly luck, so more than one in twenty runs has some fall; few are large.
    assert falls / trials < 0.5
    assert held_out_loss([[0.5, 0.6, 0.7], [0.3, 0.4, 0.5]]) == pytest.approx(0.2)
    assert held_out_loss([[1.0, 0.0, 0.5], [0.0, 0.8, 0.4]]) == 0
    assert held_out_loss([[0.5, None], [None, 0.2]]) == 0


def test_one_wild_look_is_not_enough():
    alarm = HackingAlarm()
    for step in range(1, 81):
        wild = 31 <= step <= 40
        values = {"specificity": 0.3 if wild else 0.5, "repetition": 0.0}
        assert alarm.update(StepStats(step, 0.4 + 0.005 * step, values)) is None


@pytest.mark.parametrize(("steps", "state"), [(29, "too_short"), (30, "silent")])
def test_a_training_in_which_the_alarm_could_not_fire_yet_is_too_short_to_tell(steps, state):
    alarm = HackingAlarm()
    run(alarm, steps=steps)
    assert alarm.outcome.state == state


def test_a_start_of_nothing_makes_no_small_value_suspicious():
    values = [{"specificity": 0.5, "repetition": 0.0, "objects": 0.0 if step < 20 else 0.1} for step in range(60)]
    alarm = HackingAlarm()
    assert not any(alarm.update(StepStats(step, 0.4 + 0.01 * step, row)) for step, row in enumerate(values, start=1))


def test_probes_without_an_answer_leave_the_other_losses():
    alarm = HackingAlarm(probe_every=10)
    (fired,) = run(alarm, repetition=(0.0, 0.6))
    assert fired.reasons[0].startswith("repeated phrases went from 0.0")
    alarm = HackingAlarm(probe_every=10)
    run(alarm, steps=60, held_out=(0.5, 0.5))
    alarm.update(StepStats(61, 0.8, alarm.looks[-1].values, (None,) * SAMPLES))
    assert alarm.outcome.state == "silent"


def test_reward_that_could_not_be_judged_at_first_counts_from_where_it_could():
    alarm = HackingAlarm()
    for step in range(1, 81):
        values = {"specificity": 0.5, "repetition": 0.0 if step <= 40 else 0.5}
        alarm.update(StepStats(step, math.nan if step <= 10 else 0.4 + 0.005 * step, values))
    assert alarm.alarm.reasons[-1].startswith("while reward rose from 0.48")


def test_unjudged_steps_count_for_nothing():
    alarm = HackingAlarm()
    values = {"specificity": 0.5, "repetition": 0.9}
    assert not any(alarm.update(StepStats(step, math.nan, values)) for step in range(1, 60))


def test_a_line_of_the_statistics_file_is_the_step():
    row = {"step": 7, "reward": 0.5, "length": 12.0, "repetition": None, "held_out": [0.5, None]}
    stats = read_step(row)
    assert (stats.step, stats.reward, stats.held_out) == (7, 0.5, (0.5, None))
    assert stats.values["length"] == 12
    assert math.isnan(stats.values["repetition"])
    assert read_step({"step": 1, "reward": None, "held_out": None}).held_out == ()


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


def test_specificity_is_high_for_descriptions_and_low_for_guesses_and_flattery():
    cat, dog = "a cat sleeps on the mat", "a dog runs over wet grass"
    assert specificity([[cat, cat], [dog, dog]]) == 1
    praise = "a clear and detailed description"
    assert specificity([[praise, praise], [praise, praise]]) == 0
    assert specificity([["a red bus stops here", "two cats eat fish now"], ["snow on a far hill", cat]]) == 0
    assert specificity([["a b c d", "a b c e"], ["f g h i", "f g h i"]]) == pytest.approx((1 / 3 + 1) / 2)
    assert math.isnan(specificity([[cat, cat]]))
    assert math.isnan(specificity([[cat], [dog]]))


def test_step_statistics_leave_unjudged_rewards_out():
    stats = step_stats(3, ["a cat .", "a cat and a dog ."], [4, 8], [None, 0.5])
    assert (stats.step, stats.reward) == (3, 0.5)
    assert math.isnan(stats.values["specificity"])
    assert {name: stats.values[name] for name in ("objects", "length", "repetition")} == {
        "objects": 1.5,
        "length": 6,
        "repetition": 0,
    }


SIZE = Statistic("size", "bytes per image", lambda response, _: len(response.image), "shown")
GREY = Statistic(
    "grey", "grey pixels", lambda response, _: response.image.count(7) / len(response.image), "shift", 0.33
)


def test_a_method_names_the_statistics_of_its_own_responses():
    images = [Response.of_image(b"\x07" * 3 + b"x"), Response.of_image(b"x" * 8)]
    stats = step_stats(1, images, [1, 1], [0.5, 0.5], statistics=(SIZE, GREY))
    assert stats.values == {"size": 6, "grey": 0.375}


@pytest.mark.parametrize(("start", "end"), [(0.1, 0.3), (0.95, 0.8), (0.8, 0.98)])
def test_a_share_reaches_its_limit_from_any_start_in_either_direction(start, end):
    def fires(last: float) -> bool:
        alarm = HackingAlarm((GREY,))
        steps = [start] * 10 + [last] * 30
        return any(alarm.update(StepStats(at, 0.4 + 0.01 * at, {"grey": share})) for at, share in enumerate(steps, 1))

    assert fires(end)
    assert not fires(start + (end - start) / 5)


def test_a_statistic_that_is_not_named_is_no_reason():
    assert run(HackingAlarm((LENGTH, REPETITION)), specificity=(0.5, 0.0)) == []


def test_statistics_of_texts_refuse_images_by_name():
    with pytest.raises(
        UserError, match="the statistic 'specificity' of a training step reads text, and the response is an"
    ):
        step_stats(1, [Response.of_image(b"x")], [1], [0.5], statistics=TEXT_STATISTICS)
