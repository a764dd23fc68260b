"""Remapping and the gate on small groups, whose means and deviations one can work out."""

import pytest
from claimed_runs import RUBRIC

from rubricworks.methods.rlr3.reward_rules import Group, masked_failures, spread_gain


def pair(first, second, times=1):
    """Groups of two responses: credits of the essential criterion (weight 1) and the additional one (weight 3)."""
    return [Group(RUBRIC, (first, second))] * times


def test_remapping_stretches_what_lies_above_the_threshold_to_half_the_range():
    # 0.6 and 0.9 deviate 0.15 from their mean, 0.8 and 1 by 0.1; remapped to 0.5 and 1 both by 0.25.
    result = spread_gain([*pair((0.6, 0), (0.9, 0), 5), *pair((0.8, 0), (1, 0), 5)])
    assert result.value == pytest.approx((5 * 0.10 + 5 * 0.15) / 10)
    assert result.note == "10 criteria of groups"


def test_only_criteria_near_saturation_that_tell_responses_apart_count():
    others = [
        *pair((0.4, 0), (0.9, 0), 20),  # one failed
        *pair((0.5, 0), (0.9, 0), 20),  # one is at the threshold
        *pair((0.9, 1), (0.9, 1), 20),  # all equal
        *pair((None, 0), (0.9, 0), 20),  # one alone was judged
    ]
    assert spread_gain(others).value is None
    assert spread_gain([*others, *pair((0.6, 0), (0.9, 0), 10)]).value == pytest.approx(0.10)


def test_a_few_groups_say_nothing():
    result = spread_gain(pair((0.6, 0), (0.9, 0), 9))
    assert result.value is None
    assert "only 9" in result.note


def test_failure_that_the_additional_criterion_lifts_above_the_mean_is_masked():
    masked = pair((0, 1), (1, 0), 15)  # 0.75 and 0.25 without the gate, 0 and 0.25 with it
    plain = pair((0, 0), (1, 1), 5)  # 0 and 1 either way
    result = masked_failures([*masked, *plain])
    assert result.value == pytest.approx(15 / 20)
    assert result.note == "20 failures: 15 reinforced without the gate, 0 with it"


def test_reward_at_the_mean_is_not_reinforced():
    equal = pair((0, 1), (0, 1), 10)  # twenty failures, all the same
    assert masked_failures(equal).value == 0
    separate = pair((0, 1), (0, 0), 10)  # without the gate one of both is above the mean
    assert masked_failures(separate).value == pytest.approx(0.5)


def test_failure_that_the_gate_lets_through_counts_on_its_side():
    # The whole group stays at or below 0.5, so remapping makes 0.4 a partly met 0.5, and one of those passes the gate.
    result = masked_failures(pair((0.1, 0), (0.4, 1), 10))
    assert result.note == "20 failures: 10 reinforced without the gate, 10 with it"
    assert result.value == 0


def test_response_that_was_not_judged_whole_is_no_failure():
    assert masked_failures(pair((0, None), (1, 0), 30)).value is None
    assert "only 0 responses" in masked_failures(pair((1, 0), (1, 1), 30)).note
