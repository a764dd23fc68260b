"""A question's text: spellings that are the same, options in line and on lines, letters, boxes, prompts."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from rubricworks.data.question_text import (
    Templates,
    answer_letter,
    box_span,
    normalise_question,
    option_by_letter,
    question_with_options,
    question_without_options,
    split_options,
    strip_image_tags,
    unboxed,
)

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=40)
options = st.lists(st.text("abc 12", min_size=1).filter(str.strip), min_size=2, max_size=6).map(tuple)


@pytest.mark.parametrize(
    "spelling",
    [
        "how many circles are there ?",
        "  How many\n circles\tare there?",
        "HOW MANY CIRCLES ARE THERE",
        "how many circles are there?!",
        "how many circles are there\uff1f",  # full-width question mark
        "\uff28ow many circles are there . . .",  # full-width H
        "how\u00a0many circles are there ;",
    ],
)
def test_spellings_of_one_question_are_the_same(spelling):
    assert normalise_question(spelling) == "how many circles are there"


@pytest.mark.parametrize("other", ["how many circles are here?", "how many circle are there?", "f(x) = 2", "f(x) = 20"])
def test_other_questions_stay_different(other):
    others = {"how many circles are there?", "how many circles are here?", "how many circle are there?", "f(x)=2"}
    assert normalise_question(other) not in {normalise_question(text) for text in others - {other}}


@given(words)
def test_normalising_twice_changes_nothing_more(text):
    once = normalise_question(text)
    assert normalise_question(once) == once
    assert normalise_question(f"  {once.upper() if once.isascii() else once} ?") == once


@given(st.text("wh atis?", min_size=1).filter(str.strip), options)
def test_options_in_line_come_off_again(question, choices):
    question_text = question_with_options(question, choices)
    assert question_without_options(question_text, choices) == question
    # By hand: each option follows its letter, in order.
    assert question_text == question + "".join(f" {chr(65 + at)} {choice}" for at, choice in enumerate(choices))


def test_open_question_has_nothing_to_come_off():
    assert question_with_options("where ?", ()) == question_without_options("where ?", ()) == "where ?"


@pytest.mark.parametrize(
    "text",
    [
        "What is it?\nChoices:\n(A) one third\n(B) two B's\n(C) 3",
        "What is it?\nA. one third\nB. two B's\nC. 3",
        "What is it? Options: A: one third B: two B's C: 3",
        "What is it?\n\nA) one third  B) two B's  C) 3",
    ],
)
def test_options_at_the_end_of_a_question_are_taken_apart(text):
    assert split_options(text) == ("What is it?", ("one third", "two B's", "3"))


@pytest.mark.parametrize(
    "plain", ["What is it?", "Where do lines A and B meet?", "A. one B. two", "Is it (A)?", "It ends: A. one B.", ""]
)
def test_text_without_two_options_behind_a_question_is_left_whole(plain):
    assert split_options(plain) == (plain, ())


def test_points_named_in_the_question_are_not_its_options():
    stem, result = split_options("From point A. walk to point B. How far? A. 3 m B. 4 m")
    assert (stem, result) == ("From point A. walk to point B. How far?", ("3 m", "4 m"))


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        *(("B", "B"), ("b", "B"), ("(B)", "B"), ("B.", "B"), (" (b) ", "B")),
        *(("green", "B"), ("Green.", "B"), ("B. green", "B"), ("(C)", "C")),
        *(("D", None), ("purple", None), ("", None), ("A or B", None), ("red green", None)),
    ],
)
def test_answer_names_an_option_by_letter_or_by_text(answer, letter):
    assert answer_letter(answer, ("red", "green", "blue")) == letter


def test_text_that_two_options_share_names_neither():
    assert answer_letter("1 cm", ("1 cm", "2 cm", "1 CM")) is None


@given(options, st.text("ABCDEFGabc ", max_size=3))
def test_letter_finds_its_option(choices, text):
    by_hand = {chr(65 + at): choice for at, choice in enumerate(choices)}
    expected = by_hand.get(text.strip().upper()) if len(text.strip()) == 1 else None
    assert option_by_letter(text, choices) == expected


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"so \boxed{3}", "3"),
        (r"\boxed{1} or rather \boxed{ 2 }", "2"),
        (r"\boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed {x}", "x"),
        (r"\boxed{\text{a \{set\}}}", r"\text{a \{set\}}"),
        (r"\boxed{7} and an open \boxed{8", "7"),
        ("no box", "no box"),
        (r"\boxed{never closed", r"\boxed{never closed"),
    ],
)
def test_last_closed_box_holds_the_answer(text, content):
    assert unboxed(text) == content


@given(st.text("{}x \\", max_size=12), st.text("{}x", max_size=6))
def test_box_span_is_the_shortest_balanced_content(before, inside):
    text = f"{before}\\boxed{{{inside}"
    span = box_span(text)
    # By brute force: the first closing place at which as many braces closed as opened.
    rest = text[len(before) + len("\\boxed{") :]
    ends = [at for at, sign in enumerate(rest) if sign == "}" and rest[:at].count("{") == rest[:at].count("}")]
    assume("boxed" not in before)
    assert (span is None) == (not ends)
    if span:
        assert text[slice(*span)] == rest[: ends[0]]


def test_prompts_ask_for_the_last_box_and_show_options_only_where_there_are_some():
    templates = Templates()
    requests = templates.prompt("which colour?", ("red", "green"))
    assert "which colour?\nA. red\nB. green\n" in requests
    assert "letter" in requests
    plain = templates.prompt("which colour?")
    assert "A." not in plain
    for prompt in (requests, plain):
        assert "step by step" in prompt
        assert "\\boxed{}" in prompt


def test_template_without_a_place_for_options_has_them_in_line():
    templates = Templates(open="{question}", choice="{question}")
    assert templates.prompt("which ?", ("red", "green")) == "which ? A red B green"
    assert templates.prompt("which ?") == "which ?"


def test_braces_in_a_question_are_no_places():
    assert Templates(open="Q: {question}").prompt(r"\frac{1}{2} {options} {question}?") == (
        r"Q: \frac{1}{2} {options} {question}?"
    )


def test_template_that_asks_nothing_is_refused():
    with pytest.raises(ValidationError, match=r"has no \{question\}"):
        Templates(choice="Pick one: {options}")


@pytest.mark.parametrize("place", ["<image>", "<image>\n", "<|image|>", "<image_1>", "<img>"])
def test_places_of_images_leave_the_question(place):
    assert strip_image_tags(f"{place}what is it?") == "what is it?"
    assert re.search("<", strip_image_tags("is 1 < 2 ?"))
