import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.rewards import format_mask
from rubricworks.rewards.format_mask import has_repetition_loop, mixes_languages

SENTENCE = "at top-left a big red circle . "
QUESTION = "How many circles are there?"


@pytest.mark.parametrize(
    ("response", "loops"),
    [
        (SENTENCE * 2, False),
        (SENTENCE * 4, False),
        (SENTENCE * 6, True),
        ("first something else, then " + "no " * 30, True),
        ("no " * 10, False),
        ("ha" * 60, True),
        ("哈" * 100, True),
        ("-" * 500 + " a table | " * 3, False),
        ("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25", False),
        ("", False),
    ],
)
def test_a_unit_that_comes_back_without_a_break_is_a_loop(response, loops):
    assert has_repetition_loop(response) is loops


@given(st.lists(st.text("abcdef", min_size=1, max_size=4), min_size=5, max_size=12, unique=True), st.integers(8, 20))
def test_any_unit_of_words_repeated_often_is_found_wherever_it_starts(unit, times):
    assert has_repetition_loop("to begin with , " + " ".join(unit * times) + " and the end")


@pytest.mark.parametrize(
    ("response", "allowed", "mixed"),
    [
        ("There are three circles.", [QUESTION], False),
        ("There are three circles, 我来数一数", [QUESTION], True),
        ("The sign reads 停止.", [QUESTION], False),
        ("The sign reads 停止营业中.", [QUESTION, "停止营业中"], False),
        (r"角 \alpha 等于 \frac{1}{2}, 所以 x = 3", ["角是多少?"], False),
        ("Let me think about the angle first.", ["角是多少?"], True),
        (r"Thus \theta = π/2 and β > 0", [QUESTION], False),
        ("да, there are three", [], False),
        ("there are three, потому что", [], True),
        ("42", [QUESTION], False),
    ],
)
def test_more_than_a_quotation_in_a_foreign_script_is_another_language(response, allowed, mixed):
    assert mixes_languages(response, allowed=allowed) is mixed


@given(st.text(max_size=300))
def test_any_text_has_a_mask(response):
    assert format_mask(response, allowed=[QUESTION]) in (True, False)


def test_long_responses_are_read_at_once():
    assert format_mask("word number " + " ".join(map(str, range(20_000))), allowed=[QUESTION])
