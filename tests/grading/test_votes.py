"""Several judges' credits as one, against counting by hand and every way in which the missing votes could fall."""

import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.grading import combine_credits

CREDITS = (0.0, 0.5, 1.0)
votes = st.lists(st.sampled_from(CREDITS), min_size=1, max_size=7)


@pytest.mark.parametrize(
    ("credits", "majority", "median", "any_"),
    [
        ([1, 1, 0], 1, 1, 1),
        ([1, 0, 0], 0, 0, 1),
        ([1, 0], 0, 0, 1),
        ([0, 0.5, 1], 0, 0.5, 1),
        ([0.5, 1, 1, 0], 1, 0.5, 1),
        ([0.5], 0.5, 0.5, 0.5),
        ([None, 1], None, None, 1),
        ([None, None], None, None, None),
        ([0, None, 0], 0, 0, None),
        ([1, None, 0], None, None, 1),
    ],
)
def test_cases_counted_by_hand(credits, majority, median, any_):
    assert [combine_credits(credits, how) for how in ("majority", "median", "any")] == [majority, median, any_]


@given(votes)
def test_the_median_is_the_lower_one(credits):
    assert combine_credits(credits, "median") == statistics.median_low(credits)


@given(votes, st.sampled_from(["majority", "median", "any"]), st.integers(1, 3))
def test_a_verdict_stands_exactly_when_no_vote_of_the_missing_judges_could_change_it(ids, how, missing):
    outcomes = {combine_credits([*ids, *cast], how) for cast in itertools.product(CREDITS, repeat=missing)}
    expected = outcomes.pop() if len(outcomes) == 1 else None
    assert combine_credits([*ids, *[None] * missing], how) == expected
