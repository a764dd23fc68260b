"""Letters of answers and the options that a question offers."""

from hypothesis import given
from hypothesis import strategies as st

from rubricworks.metrics import CANNOT_ANSWER, extract_letter, is_yes_no, offered_options

options = st.lists(st.text(max_size=8), min_size=1, max_size=5)


@given(st.text(max_size=40), st.integers(1, 6))
def test_letter_always_names_an_option(response, num_options):
    letter = extract_letter(response, num_options)
    assert letter is None or letter in "ABCDEF"[:num_options]


@given(st.integers(1, 26))
def test_number_and_letter_of_an_option_name_it(position):
    letter = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[position - 1]
    assert extract_letter(f"({position})", 26) == extract_letter(f"{letter}.", 26) == letter


@given(st.text(max_size=20), options)
def test_last_option_is_added_to_all_but_yes_or_no_questions(question, choices):
    added = () if is_yes_no(question, choices) else (CANNOT_ANSWER,)
    assert offered_options(question, choices) == (*choices, *added)


@given(st.text(max_size=20), options.flatmap(lambda row: st.tuples(st.just(row), st.permutations(row))))
def test_order_of_options_does_not_make_a_question_yes_or_no(question, both):
    assert is_yes_no(question, both[0]) == is_yes_no(question, both[1])
