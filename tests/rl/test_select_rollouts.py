"""Rollout selection: each strategy against a brute-force version, and properties of all strategies."""

import math
import statistics
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.rl import keep_prompt, select_rollouts

NAN = math.nan
STRATEGIES = ("hybrid", "ffkc_1d", "vanilla")


def test_hybrid_keeps_the_best_half_and_random_others():
    rewards = torch.arange(16) / 16
    draws = Counter()
    for seed in range(2_000):
        selection = select_rollouts(rewards, 4, seed=seed)
        assert selection[:2] == [15, 14]
        draws.update(selection[2:])
    assert set(draws) == set(range(14))
    assert min(draws.values()) > 0.75 * 2_000 * 2 / 14  # each as often as another


def test_a_seed_draws_the_same_and_another_seed_something_else():
    rewards = [0.5] * 32
    assert select_rollouts(rewards, 8, seed=3) == select_rollouts(rewards, 8, seed=3)
    assert select_rollouts(rewards, 8, seed=3) != select_rollouts(rewards, 8, seed=4)


def test_top_says_how_many_are_taken_by_reward_and_all_of_them_is_best_of_n():
    rewards = [0.1, 0.9, 0.4, 0.9, 0.3, 0.6, 0.2, 0.0]
    assert select_rollouts(rewards, 4, top=4) == [1, 3, 5, 2]
    assert select_rollouts(rewards, 4, top=1)[0] == 1
    assert {place for seed in range(200) for place in select_rollouts(rewards, 1, top=0, seed=seed)} == set(range(8))
    assert select_rollouts(rewards, 5, top=None)[:2] == select_rollouts(rewards, 5, top=2)[:2]


def test_ffkc_starts_at_the_median_and_goes_where_it_is_farthest():
    assert select_rollouts([0.0, 0.1, 0.5, 0.6, 1.0], 4, "ffkc_1d") == [2, 0, 4, 1]
    assert select_rollouts([0.7, 0.3], 1, "ffkc_1d") == [0]  # both are as near: the one drawn first
    assert select_rollouts([0.2] * 4, 3, "ffkc_1d") == [0, 1, 2]


@given(st.lists(st.integers(0, 32).map(lambda n: n / 32), min_size=1, max_size=12), st.data())
def test_ffkc_is_the_greedy_rule_by_brute_force(rewards, data):
    keep = data.draw(st.integers(1, len(rewards)))
    median = statistics.median(rewards)
    selection = [min(range(len(rewards)), key=lambda place: abs(rewards[place] - median))]
    while len(selection) < keep:
        gap = {
            place: min(abs(rewards[place] - rewards[other]) for other in selection)
            for place in range(len(rewards))
            if place not in selection
        }
        selection.append(max(gap, key=gap.get))
    assert select_rollouts(torch.tensor(rewards), keep, "ffkc_1d") == selection


def test_vanilla_looks_at_no_reward():
    assert select_rollouts([0.1, 0.9, 0.5, 0.7], 2, "vanilla") == [0, 1]


REWARDS = st.lists(st.floats(-10, 10) | st.none() | st.just(NAN), min_size=1, max_size=16)


@given(REWARDS, st.sampled_from(STRATEGIES), st.data())
def test_exact_number_is_kept_and_unjudged_ones_last(rewards, strategy, data):
    keep = data.draw(st.integers(1, len(rewards)))
    top = data.draw(st.none() | st.integers(0, keep))
    selection = select_rollouts(rewards, keep, strategy, top=top, seed=data.draw(st.integers(0, 100)))
    assert len(selection) == len(set(selection)) == keep
    assert set(selection) <= set(range(len(rewards)))
    judged = {place for place, reward in enumerate(rewards) if reward is not None and not math.isnan(reward)}
    assert len(judged.intersection(selection)) == min(keep, len(judged))
    if strategy == "hybrid":
        best = min(keep // 2 if top is None else top, len(judged))
        left = [rewards[place] for place in judged.difference(selection[:best])]
        assert all(rewards[place] >= max(left, default=-math.inf) for place in selection[:best])


@pytest.mark.parametrize(
    ("rewards", "keep", "options", "message"),
    [
        ([0.1, 0.2], 3, {}, "keep is 3"),
        ([0.1, 0.2], 0, {}, "keep is 0"),
        ([], 1, {}, "keep is 1"),
        ([0.1, 0.2], 1, {"top": 2}, "top is 2"),
        ([0.1, 0.2], 1, {"top": -1}, "top is -1"),
        ([0.1, 0.2], 1, {"strategy": "best"}, "hybrid, ffkc_1d or vanilla"),
        ([0.1, math.inf], 1, {}, "rollout 1 is infinite"),
        (torch.zeros(2, 2), 1, {}, "one prompt"),
    ],
)
def test_what_cannot_be_kept_is_refused(rewards, keep, options, message):
    with pytest.raises(ValueError, match=message):
        select_rollouts(rewards, keep, **options)


@pytest.mark.parametrize(
    ("passes", "expected"),
    [
        ([True, False], True),
        ([True, True], False),
        ([False, False, False], False),
        ([1, 0, 1, 1], True),
        ([True, None, False], True),
        ([True, None], False),
        ([0.0, NAN, 1.0], True),
        ([None, None], False),
        ([True], False),
        ([], False),
        (torch.tensor([True, False]), True),
        (torch.tensor([1.0, NAN]), False),
    ],
)
def test_a_prompt_is_kept_when_some_rollouts_pass_and_some_fail(passes, expected):
    assert keep_prompt(passes) is expected


def test_a_shaped_reward_is_no_pass():
    with pytest.raises(ValueError, match=r"0\.7 is neither"):
        keep_prompt([1.0, 0.7])
