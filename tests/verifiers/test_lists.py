"""Lists of text, against all pairings tried one by one, and with faults on either side."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from rubricworks.verifiers import CannotVerify, list_verify

words = st.lists(st.text(alphabet="ab ", max_size=4), min_size=1, max_size=6)


@given(words, words)
def test_score_is_that_of_the_best_of_all_pairings(predict, target):
    fewer, more = sorted((predict, target), key=len)
    best = max(
        sum(Levenshtein.normalized_similarity(a, b) for a, b in zip(fewer, permutation, strict=True))
        for permutation in permutations(more, len(fewer))
    )
    assert list_verify(predict, target=target) == pytest.approx(best / len(more))


def test_pairing_equal_texts_first_would_be_wrong():
    """1 - Levenshtein / longer length breaks the triangle inequality, so equal texts are not always best as a pair."""
    assert list_verify(["aba", "ab"], target=["aba", "ba"]) == pytest.approx((2 / 3 + 2 / 3) / 2)


def test_the_example_of_the_paper_misses_one_of_three():
    assert list_verify(["M-30", "M-31"], target=["M-30", "M-31", "M-31UK"]) == pytest.approx(2 / 3)


def test_order_does_not_matter():
    assert list_verify(["b", "c", "a"], target=["a", "b", "c"]) == 1


def test_the_best_complete_list_of_the_candidates_counts():
    assert list_verify(["x", "y"], candidates=[["a"], ["x", "y"], ["x", "y", "z"]]) == 1
    assert list_verify(["x", "y"], target=["q"], candidates=[["x", "y"]]) == 1


def test_numbers_count_as_text_and_other_things_as_wrong_items():
    assert list_verify([12, "a"], target=["12", "a"]) == 1
    assert list_verify(["a", None, ["b"]], target=["a"]) == pytest.approx(1 / 3)
    assert list_verify("a", target=["a"]) == 0


def test_empty_lists():
    assert list_verify([], target=[]) == 1
    assert list_verify([], target=["a"]) == list_verify(["a"], target=[]) == 0


@pytest.mark.parametrize("target", [None, "a", ["a", None], [["a"]], {"a"}], ids=repr)
def test_a_target_that_is_no_list_of_texts_cannot_be_verified(target):
    with pytest.raises(CannotVerify):
        list_verify(["a"], target=target)


def test_ten_thousand_items_have_a_score_as_answer_and_are_refused_as_target():
    many = [str(n) for n in range(10_000)]
    assert list_verify(many, target=["17", "5"]) == pytest.approx(2 / 10_000)
    assert list_verify(many, target=[str(n) for n in range(1000)]) == 0  # ten million pairs
    with pytest.raises(CannotVerify, match="10,000"):
        list_verify(["a"], target=many)


def test_a_thousand_items_in_another_order_are_all_found():
    items = [f"item {n}" for n in range(1000)]
    assert list_verify(items[::-1], target=items) == pytest.approx(1)
