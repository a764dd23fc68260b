"""Decoupled advantages against a version written with plain loops and what must hold of masked and constant rewards.

The cases of GDPO's code are in tests/conformance, the comparison with TRL's trainer in tests/training.
"""

import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.rl import decoupled_advantages, group_advantages

NAN = math.nan


def plain_loops(rows, weights, size, eps):
    """Equations 2.4-2.6 of BalCapRL for rows of rewards, None where a row is masked."""

    def normalised(values):
        mean = statistics.fmean(values) if values else 0.0
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        return [(value - mean) / (deviation + eps) for value in values]

    summed = [None] * len(rows)
    for start in range(0, len(rows), size):
        places = [place for place in range(start, start + size) if rows[place] is not None]
        columns = [normalised([rows[place][k] for place in places]) for k in range(len(weights))]
        for nth, place in enumerate(places):
            summed[place] = math.fsum(weight * column[nth] for weight, column in zip(weights, columns, strict=True))
    judged = iter(normalised([value for value in summed if value is not None]))
    return [0.0 if value is None else next(judged) for value in summed]


@pytest.mark.slow
@settings(max_examples=150)
@given(data=st.data(), size=st.integers(2, 6), rewards=st.integers(1, 4), eps=st.sampled_from([1e-4, 1e-2]))
def test_any_rewards_masked_or_not_agree_with_plain_loops(data, size, rewards, eps):
    count = size * data.draw(st.integers(1, 4))
    row = st.lists(st.integers(0, 64).map(lambda n: n / 64), min_size=rewards, max_size=rewards) | st.none()
    rows = data.draw(st.lists(row, min_size=count, max_size=count))
    weights = data.draw(st.lists(st.sampled_from([0.1, 0.3, 1.0, -0.5, 0.0]), min_size=rewards, max_size=rewards))
    tensor = torch.tensor([row or [NAN] * rewards for row in rows], dtype=torch.float64)
    actual = decoupled_advantages(tensor, torch.tensor(weights, dtype=torch.float64), size, eps=eps)
    assert actual.tolist() == pytest.approx(plain_loops(rows, weights, size, eps), abs=1e-8)


def test_a_rollout_with_one_missing_reward_is_masked_in_all():
    rewards = torch.rand(8, 3, generator=torch.Generator().manual_seed(0))
    with_missing, all_ = rewards.clone(), rewards.clone()
    with_missing[2, 1], all_[2] = NAN, NAN
    advantages = decoupled_advantages(with_missing, [0.1, 0.3, 0.3], 4)
    assert advantages[2] == 0
    assert torch.equal(advantages, decoupled_advantages(all_, [0.1, 0.3, 0.3], 4))
    changed = with_missing.clone()
    changed[2, 0] = 100.0  # what was judged of it moves nobody
    assert torch.equal(advantages, decoupled_advantages(changed, [0.1, 0.3, 0.3], 4))


def test_judged_rollouts_of_a_group_are_normalised_without_the_masked_ones():
    rewards = torch.tensor([[1.0, 0.2], [NAN, NAN], [0.0, 0.9], [0.5, 0.4]])
    masked = decoupled_advantages(rewards, [1.0, 0.5], 4)
    torch.testing.assert_close(masked[[0, 2, 3]], decoupled_advantages(rewards[[0, 2, 3]], [1.0, 0.5], 3))


def test_group_with_one_judged_rollout_teaches_nothing():
    alone = [[NAN, NAN], [9.0, 9.0], [NAN, NAN]]
    rewards = torch.tensor([*alone, [0.0, 0.1], [0.5, 0.2], [1.0, 0.6]])
    advantages = decoupled_advantages(rewards, [1.0, 1.0], 3)
    assert advantages[:3].tolist() == pytest.approx([0, 0, 0], abs=1e-6)
    assert advantages[3] < advantages[4] < advantages[5]
    assert decoupled_advantages(torch.tensor(alone), [1.0, 1.0], 3).tolist() == [0.0] * 3
    assert decoupled_advantages(torch.full((6, 2), NAN), [1.0, 1.0], 3).tolist() == [0.0] * 6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [2, 3, 8, 64])
def test_rewards_of_constant_sum_and_equal_weight_cancel_to_exactly_nothing(dtype, size):
    generator = torch.Generator().manual_seed(size)
    first = torch.rand(4 * size, generator=generator, dtype=dtype)
    first[1] = NAN
    for total in (1.0, 0.3, 17.7):
        rewards = torch.stack([first, total - first], dim=1)
        assert decoupled_advantages(rewards, [0.3, 0.3], size).tolist() == [0.0] * (4 * size)
        assert decoupled_advantages(rewards, [0.3, 0.31], size).abs().max() > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.1, 0.7, 1 / 3, 1234.567])
def test_constant_rewards_teach_exactly_nothing(dtype, value):
    rewards = torch.full((15, 2), value, dtype=dtype)
    rewards[7:] += 1  # another constant: of the third group, and of a part of the second
    assert decoupled_advantages(rewards[:5], [1, 1], 5).tolist() == [0.0] * 5
    advantages = decoupled_advantages(rewards, [1, 1], 5)
    assert advantages[[0, 10]].tolist() == pytest.approx([0, 0], abs=1e-3)
    assert advantages[5:7].max() < -0.5
    assert advantages[7:10].min() > 0.5


@pytest.mark.parametrize("constant", [0.1, 1234.567, -1e6 / 3])
@pytest.mark.parametrize("size", [4, 6, 7])
def test_a_reward_that_is_constant_in_a_group_leaves_the_decision_to_the_others(constant, size):
    second = torch.rand(size, generator=torch.Generator().manual_seed(size))
    rewards = torch.stack([torch.full((size,), constant), second], dim=1)
    alone = decoupled_advantages(second[:, None], [1], size)
    torch.testing.assert_close(decoupled_advantages(rewards, [5, 1], size), alone)


def test_neither_scale_nor_offset_of_one_reward_matters():
    rewards = torch.rand(12, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    stretched = rewards * torch.tensor([1000.0, 1.0]) + torch.tensor([-7.0, 3.0])
    actual = [decoupled_advantages(these, [1, 1], 4, eps=0.0) for these in (rewards, stretched)]
    torch.testing.assert_close(*actual)
    summed = [group_advantages(these.sum(dim=1), 4) for these in (rewards, stretched)]
    assert (summed[0] - summed[1]).abs().max() > 0.1


def test_equal_sums_are_told_apart():
    rewards = torch.tensor([[0.2, 0.8], [0.6, 0.4], [0.2, 0.1], [0.3, 0.0]])
    advantages = decoupled_advantages(rewards, [1, 1], 4)
    assert (advantages[0] - advantages[1]).abs() > 0.1
    assert group_advantages(rewards.sum(dim=1), 4)[:2].diff().abs() < 1e-4


def test_no_rollouts_have_no_advantages_and_whole_numbers_are_rewards_too():
    assert decoupled_advantages(torch.zeros(0, 2), [1, 1], 4).shape == (0,)
    marks = torch.tensor([[1, 0], [0, 0], [1, 1], [0, 1]])
    assert torch.equal(decoupled_advantages(marks, [1, 2], 4), decoupled_advantages(marks.float(), [1, 2], 4))


@pytest.mark.parametrize(
    ("rewards", "weights", "size", "message"),
    [
        (torch.zeros(6, 2), [1, 1], 4, "groups of 4"),
        (torch.zeros(6), [1], 3, "groups of 3"),
        (torch.zeros(6, 2), [1, 1], 1, "at least 2"),
        (torch.zeros(6, 2), [1, 1], 0, "at least 2"),
        (torch.zeros(6, 2), [1], 3, "weights of shape"),
        (torch.zeros(6, 0), [], 3, "weights of shape"),
        (torch.zeros(6, 2), [1, NAN], 3, "finite"),
        (torch.tensor([[0.0, 1.0], [math.inf, 1.0]]), [1, 1], 2, "reward 0 of rollout 1"),
    ],
)
def test_what_is_no_whole_set_of_groups_or_no_reward_is_refused(rewards, weights, size, message):
    with pytest.raises(ValueError, match=message):
        decoupled_advantages(rewards, weights, size)
