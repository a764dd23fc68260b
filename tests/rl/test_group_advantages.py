"""Group advantages against the cases obtained from TRL, closed forms, and a version written with plain loops."""

import json
import math
import statistics
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.rl import group_advantages

CASES = json.loads((Path(__file__).parents[1] / "conformance" / "data" / "d_advantages.json").read_text())["cases"]
NAN = math.nan


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_trl_gives_the_same_for_weighted_and_summed_rewards(case, scale):
    rewards_N = (torch.tensor(case["rewards"]) * torch.tensor(case["weights"])).sum(dim=1)
    expected = torch.tensor(case["expected"][f"trl_sum_then_normalize_{scale}"])
    advantages = group_advantages(rewards_N, case["group_size"], scale=scale)
    torch.testing.assert_close(advantages, expected, atol=1e-5, rtol=1e-4)


def test_two_rollouts_get_plus_and_minus_half_their_scaled_distance():
    deviation = 0.6 / math.sqrt(2)
    expected = 0.3 / (deviation + 1e-4)
    advantages = group_advantages(torch.tensor([0.8, 0.2], dtype=torch.float64), 2)
    torch.testing.assert_close(advantages, torch.tensor([expected, -expected], dtype=torch.float64))


def test_equal_rewards_teach_nothing():
    for scale in ("group", "none"):
        assert group_advantages(torch.full((8,), 0.7), 4, scale=scale).abs().max() < 1e-3


def test_a_masked_rollout_leaves_the_baseline_and_gets_no_advantage():
    masked = group_advantages(torch.tensor([1.0, NAN, 0.0, 0.5]), 4)
    alone = group_advantages(torch.tensor([1.0, 0.0, 0.5]), 3)
    assert masked[1] == 0
    torch.testing.assert_close(masked[[0, 2, 3]], alone)


def test_a_group_with_one_or_no_judged_rollout_teaches_nothing():
    rewards = torch.tensor([NAN, NAN, NAN, 1.0, NAN, NAN])
    for scale in ("group", "batch", "none"):
        assert group_advantages(rewards, 3, scale=scale).tolist() == [0.0] * 6


def plain_loops(rewards, size, scale, eps):
    judged = [reward for reward in rewards if not math.isnan(reward)]
    spread = {"batch": statistics.stdev(judged) if len(judged) > 1 else 0.0}
    advantages = []
    for start in range(0, len(rewards), size):
        group = rewards[start : start + size]
        ids = [reward for reward in group if not math.isnan(reward)]
        mean = statistics.fmean(ids) if ids else 0.0
        spread["group"] = statistics.stdev(ids) if len(ids) > 1 else 0.0
        divisor = 1.0 if scale == "none" else spread[scale] + eps
        advantages += [0.0 if math.isnan(reward) else (reward - mean) / divisor for reward in group]
    return advantages


@given(
    size=st.integers(2, 6),
    data=st.data(),
    scale=st.sampled_from(["group", "batch", "none"]),
    eps=st.sampled_from([1e-4, 1e-2]),
)
def test_any_rewards_masked_or_not_agree_with_plain_loops(size, data, scale, eps):
    groups = data.draw(st.integers(1, 4))
    rewards = data.draw(
        st.lists(
            st.integers(0, 100).map(lambda n: n / 100) | st.just(NAN), min_size=size * groups, max_size=size * groups
        )
    )
    advantages = group_advantages(torch.tensor(rewards, dtype=torch.float64), size, scale=scale, eps=eps)
    assert advantages.tolist() == pytest.approx(plain_loops(rewards, size, scale, eps), abs=1e-9)


@pytest.mark.parametrize(
    ("rewards", "size", "scale"),
    [
        (torch.zeros(6), 4, "group"),
        (torch.zeros(6), 1, "group"),
        (torch.zeros(6), 0, "group"),
        (torch.zeros(2, 3), 3, "group"),
        (torch.zeros(6), 3, "std"),
    ],
)
def test_what_is_no_whole_set_of_groups_is_refused(rewards, size, scale):
    with pytest.raises(ValueError):
        group_advantages(rewards, size, scale=scale)


def test_no_rollouts_have_no_advantages():
    assert group_advantages(torch.zeros(0), 4).shape == (0,)
