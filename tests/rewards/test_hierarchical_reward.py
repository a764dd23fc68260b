"""The gates before the weighted share, each at its edge, and against the rule written out."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.rewards import hierarchical_reward, weighted_reward

ESSENTIAL, ADDITIONAL = True, False


def test_open_gates_leave_the_weighted_share():
    reward = hierarchical_reward([1, 1, 0], [3, 2, 1], essential=[ESSENTIAL, ESSENTIAL, ADDITIONAL])
    assert reward == pytest.approx(5 / 6)


@pytest.mark.parametrize(("score", "reward"), [(0.49, 0.0), (0.5, 0.75), (0.99, 0.995), (1.0, 1.0)])
def test_an_essential_criterion_fails_below_a_half(score, reward):
    assert hierarchical_reward([score, 1], [1, 1], essential=[ESSENTIAL, ADDITIONAL]) == pytest.approx(reward)


def test_two_partly_met_essentials_are_one_too_many():
    assert hierarchical_reward([0.5, 0.9], [1, 1], essential=[ESSENTIAL, ESSENTIAL]) == 0
    assert hierarchical_reward([0.5, 1], [1, 1], essential=[ESSENTIAL, ESSENTIAL]) == 0.75
    assert hierarchical_reward([0.5, 0.9], [1, 1], essential=[ESSENTIAL, ADDITIONAL]) == pytest.approx(0.7)


def test_additional_criteria_close_no_gate():
    assert hierarchical_reward([0, 0.6, 0.6, 1], [1] * 4, essential=[ADDITIONAL] * 3 + [ESSENTIAL]) == 0.55


def test_a_response_that_is_not_valid_earns_nothing():
    assert hierarchical_reward([1, 1], [1, 1], essential=[ESSENTIAL, ADDITIONAL], valid=False) == 0


@pytest.mark.parametrize("missing", [None, math.nan])
@pytest.mark.parametrize("valid", [True, False])
@pytest.mark.parametrize("scores", [[1], [0]])
def test_one_unjudged_criterion_leaves_no_reward_whatever_the_gates_say(missing, valid, scores):
    for kind in (ESSENTIAL, ADDITIONAL):
        assert hierarchical_reward([*scores, missing], [1, 1], essential=[ESSENTIAL, kind], valid=valid) is None


CRITERIA = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.25, 0.49, 0.5, 0.75, 1.0, 1.0, 1.0]) | st.floats(0, 1),
        st.integers(1, 3),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


@given(CRITERIA, st.booleans())
def test_the_rule_written_out(criteria, valid):
    scores, weights, essential = zip(*criteria, strict=True)
    grades = ["failed" if score < 0.5 else "partly" if score < 1 else "met" for score, _, must in criteria if must]
    shut = not valid or grades.count("failed") >= 1 or grades.count("partly") >= 2
    expected = 0.0 if shut else weighted_reward(scores, weights)
    assert hierarchical_reward(scores, weights, essential=essential, valid=valid) == expected


@pytest.mark.parametrize(
    ("scores", "weights", "essential"),
    [
        ([1], [1, 2], [True, False]),
        ([1, 1], [1, 2], [True]),
        ([], [], []),
        ([1], [0], [True]),
        ([1.5], [1], [True]),
        ([None], [-1], [True]),
    ],
)
def test_what_is_no_rubric_or_no_score_is_refused(scores, weights, essential):
    with pytest.raises(ValueError):
        hierarchical_reward(scores, weights, essential=essential)
