"""Balanced sampling: exactly n of each category, no input twice, whatever is turned away."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.evaluation.audit.sampling import TRIES, Attempt, draw_number, missing_counts, next_pass, shuffle_inputs
from rubricworks.evaluation.audit.values import FAILURE_MODES

NAMES = [f"s{number}" for number in range(40)]


def collect(order, per_category, passes_checks):
    """All attempts, pass by pass, as the stage makes them."""
    attempts = []
    while selection := next_pass(order, attempts, per_category):
        attempts += [Attempt(name, mode, passes_checks(name, mode)) for name, mode in selection]
    return attempts


def test_without_rejections_one_pass_fills_every_category_evenly():
    selection = next_pass(NAMES, [], 10)
    assert Counter(mode for _, mode in selection) == dict.fromkeys(FAILURE_MODES, 10)
    assert len({name for name, _ in selection}) == 40


def test_nothing_is_written_that_the_set_would_not_use():
    attempts = collect(NAMES, 3, lambda name, mode: True)
    assert len(attempts) == 12


def test_category_that_nothing_passes_runs_short_and_takes_no_place_from_the_others():
    attempts = collect(NAMES, 5, lambda name, mode: mode != "adversarial")
    assert missing_counts(attempts, 5) == {**dict.fromkeys(FAILURE_MODES, 0), "adversarial": 5}
    tried = [attempt.sample_id for attempt in attempts if attempt.mode == "adversarial"]
    used = {attempt.sample_id for attempt in attempts if attempt.accepted}
    assert set(Counter(tried).values()) == {TRIES}
    assert set(tried) >= set(NAMES) - used  # and all that were free


def test_order_follows_from_names_and_seed_alone():
    shuffled = random.Random(1).sample(NAMES, len(NAMES))
    assert shuffle_inputs(shuffled, 3) == shuffle_inputs([*NAMES, *NAMES], 3)
    assert shuffle_inputs(NAMES, 3) != shuffle_inputs(NAMES, 4)
    assert {draw_number(3, 1, name) for name in NAMES} == {0, 1, 2}


@pytest.mark.parametrize("seed", range(5))
def test_the_papers_set_is_reached_though_many_candidates_are_turned_away(seed):
    """4 x 250 of 1,100 inputs: two of five candidates are turned away, and one of ten inputs suits one mode only."""
    order = [f"s{number}" for number in range(1100)]
    rng = random.Random(seed)
    only = {name: rng.choice(FAILURE_MODES) for name in order if rng.random() < 0.1}
    attempts = collect(order, 250, lambda name, mode: only.get(name, mode) == mode and rng.random() < 0.6)
    accepted = [attempt for attempt in attempts if attempt.accepted]
    assert Counter(attempt.mode for attempt in accepted) == dict.fromkeys(FAILURE_MODES, 250)
    assert len({attempt.sample_id for attempt in accepted}) == 1000


@given(
    st.integers(min_value=1, max_value=12),
    st.integers(min_value=0, max_value=40),
    st.integers(min_value=0, max_value=2**32),
    st.floats(min_value=0, max_value=1),
)
def test_whatever_is_turned_away_no_input_is_used_twice_and_no_category_overflows(per_category, inputs, seed, share):
    rng = random.Random(seed)
    verdicts = {(name, mode): rng.random() < share for name in NAMES for mode in FAILURE_MODES}
    attempts = collect(NAMES[:inputs], per_category, lambda name, mode: verdicts[name, mode])
    accepted = [attempt for attempt in attempts if attempt.accepted]
    assert len({attempt.sample_id for attempt in accepted}) == len(accepted)
    tries = Counter((attempt.sample_id, attempt.mode) for attempt in attempts)
    assert all(count <= TRIES for count in tries.values())
    counts = Counter(attempt.mode for attempt in accepted)
    assert all(counts[mode] <= per_category for mode in FAILURE_MODES)
    used = {attempt.sample_id for attempt in accepted}
    for mode in FAILURE_MODES:  # a category is short only if every free input was tried for it, as often as may be
        if counts[mode] < per_category:
            assert all(tries[name, mode] == TRIES for name in NAMES[:inputs] if name not in used)
