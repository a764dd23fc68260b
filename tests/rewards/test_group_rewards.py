import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.rewards import group_rewards, hierarchical_reward, remap_group, weighted_reward

CREDITS = st.lists(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.9, 0.95, 1.0, None]), min_size=3, max_size=3), min_size=2, max_size=8
)
WEIGHTS, ESSENTIAL = [3, 2, 1], [True, True, False]


@given(CREDITS)
def test_rewards_are_the_hierarchical_ones_of_each_criterions_remapped_scores(credits):
    remapped = [remap_group([row[at] for row in credits]) for at in range(3)]
    expected = [
        hierarchical_reward([remapped[at][row] for at in range(3)], WEIGHTS, essential=ESSENTIAL)
        for row in range(len(credits))
    ]
    assert group_rewards(credits, WEIGHTS, essential=ESSENTIAL) == expected


@given(CREDITS, st.data())
def test_an_invalid_response_earns_nothing_and_changes_nothing_for_the_others(credits, data):
    valid = data.draw(st.lists(st.booleans(), min_size=len(credits), max_size=len(credits)))
    free = group_rewards(credits, WEIGHTS, essential=ESSENTIAL)
    masked = group_rewards(credits, WEIGHTS, essential=ESSENTIAL, valid=valid)
    assert masked == [
        reward if is_valid or reward is None else 0 for reward, is_valid in zip(free, valid, strict=True)
    ]  # fmt: skip


@given(CREDITS)
def test_without_remapping_and_gate_the_weighted_share_is_left(credits):
    expected = [weighted_reward(row, WEIGHTS) for row in credits]
    assert group_rewards(credits, WEIGHTS, essential=ESSENTIAL, remap=False, gate=False) == expected


def test_scores_near_saturation_are_spread_out_by_remapping():
    credits = [[0.9], [0.95], [1.0]]
    assert group_rewards(credits, [1], essential=[True], gate=False) == [0.5, 0.75, 1]
    assert group_rewards(credits, [1], essential=[True], remap=False) == [0.9, 0.95, 1]


def test_additional_criteria_do_not_make_up_for_an_essential_failure():
    credits = [[0, 1, 1], [1, 0, 0]]
    essential = [True, False, False]
    assert group_rewards(credits, [1, 3, 3], essential=essential) == [0, pytest.approx(1 / 7)]
    assert group_rewards(credits, [1, 3, 3], essential=essential, gate=False)[0] > 0.8


def test_lengths_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="one per criterion"):
        group_rewards([[1, 1]], [1], essential=[True])
    with pytest.raises(ValueError, match="one per response"):
        group_rewards([[1]], [1], essential=[True], valid=[True, False])
