"""Matching of assertions to a text, and their repetition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.grading.assertions.texts import first_surplus, has_words, text_states

WORDS = ["a", "red", "circle", "stands", "at", "the", "left", "of", "two", "small", "blue", "squares"]
CAPTION = "A man rides two horses past a wooden fence; the sign reads EXIT, and it adds a calm mood."


@pytest.mark.parametrize(
    "assertion",
    [
        "There is a man",
        "The man is riding horses",
        "There are 2 horses",
        "The fence is wooden",
        "The image shows a fence",
        "A fence is visible in the scene",
        'The sign reads "EXIT"',
        "It adds a calm mood to the picture",
        "The mood is calming",
        "MAN",
    ],
)
def test_an_assertion_in_other_forms_of_the_captions_words_is_its_own(assertion):
    assert text_states(CAPTION, [assertion]) == [True]


@pytest.mark.parametrize(
    "assertion",
    ["There is a dog", "Two elephants drink water", "The image is a photograph", "The street is wet", "...", "A star"],
)
def test_an_assertion_about_something_else_is_not(assertion):
    assert text_states(CAPTION + " He stands.", [assertion]) == [False]


def test_half_of_the_content_words_are_enough_and_fewer_are_not():
    assert text_states("a red circle", ["red circle, blue square", "red square", "red blue square"]) == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(("min_overlap", "stated"), [(0, 3), (1 / 3, 3), (0.5, 2), (0.6, 1), (1, 1)])
def test_share_of_content_words_that_must_stand_in_the_text_can_be_set(min_overlap, stated):
    claims = ["the circle is red", "red square", "red blue square"]
    assert text_states("a red circle", claims, min_overlap) == [True] * stated + [False] * (3 - stated)


def test_languages_without_english_endings_or_spaces_are_compared():
    assert text_states("Ein roter Kreis steht links.", ["Der Kreis steht links", "Ein Hund bellt"]) == [True, False]
    assert text_states("一辆红色的车停在左边", ["车是红色的", "一只狗跑"]) == [True, False]


def test_words_without_content_are_looked_up_all_the_same():
    assert text_states("it is there and it is this", ["it is there", "they do have those"]) == [True, False]


@given(
    st.lists(
        st.sampled_from(["a", "red", "circle", "stands", "at", "the", "left", "of", "two", "small", "blue", "squares"]),
        min_size=1,
    )
)
def test_a_text_makes_itself_and_each_of_its_words(words):
    text = " ".join(words)
    assert all(text_states(text, [text, *words]))
    assert first_surplus(text, words) is None


def test_an_assertion_may_be_listed_as_often_as_the_text_can_say_it():
    twice = ["The circle is red", "the circle is  red."]
    assert first_surplus("A red circle. A circle, red too.", twice) is None
    assert first_surplus("A red circle and a square.", twice) == 1
    assert first_surplus("A red circle.", ["It is a circle", "It is a circle that is red"]) is None
    assert first_surplus("A dog.", ["A cat", "A bird", "A cat"]) == 2


@pytest.mark.parametrize(("text", "words"), [("", 0), ("?! ...", 0), ("\U0001f431", 0), ("7", 1), ("ok", 1), ("犬", 1)])
def test_only_letters_and_digits_are_words(text, words):
    assert has_words(text) is bool(words)
