from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.verifiers import CannotVerify, run_verifier
from rubricworks.verifiers.boxed import answer_call, answer_predict, last_boxed, score_answer


@pytest.mark.parametrize(
    ("response", "inside"),
    [
        (r"so \boxed{3}, no: \boxed{4}", "4"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed {7} and \boxed{8", "7"),
        (r"\boxed{a \boxed{b} c}", "b"),
        (r"\boxed{}", ""),
        ("no box {at} all", None),
        ("", None),
    ],
)
def test_last_closed_box_counts_with_its_braces_matched(response, inside):
    assert last_boxed(response) == inside


def test_a_hundred_thousand_open_boxes_are_read_in_one_pass():
    assert last_boxed("\\boxed{" * 20_000) is None
    assert last_boxed("\\boxed{" * 10_000 + "1" + "}" * 10_000) == "1"


@pytest.mark.parametrize(
    ("response", "answer", "options", "score"),
    [
        (r"\boxed{3}", "3", False, 1),
        (r"\boxed{ 6/2 }", "3", False, 1),
        (r"3, but no box", "3", False, 0),
        (r"\boxed{(b) the red one}", "B", True, 1),
        (r"\boxed{C}", "B", True, 0),
        (r"\boxed{A}", "A", True, 1),
        (r"\boxed{A.}", "A", True, 1),
        (r"\boxed{(A)}", "A", True, 1),
        (r"\boxed{\text{A}}", "A", True, 1),
        (r"\boxed{\text{A. red}}", "A", True, 1),
        (r"\boxed{\textbf{(A) red}}", "A", True, 1),
        (r"\boxed{A)red}", "A", True, 1),
        (r"\boxed{A: red}", "A", True, 1),
        (r"\boxed{A - red}", "A", True, 1),
        (r"\boxed{Option A}", "A", True, 1),
        (r"\boxed{A. Vitamin C}", "A", True, 1),
        (r"\boxed{A or B}", "A", True, 0),
        (r"\boxed{A. or B.}", "A", True, 0),
        (r"\boxed{A. red or B. blue}", "A", True, 0),
        (r"\boxed{(A) or (B)}", "A", True, 0),
        (r"\boxed{A and B}", "A", True, 0),
        (r"\boxed{A, B}", "A", True, 0),
        (r"\boxed{A/B}", "A", True, 0),
        (r"\boxed{AB}", "A", True, 0),
        (r"\boxed{A?}", "A", True, 0),
        (r"\boxed{not A}", "A", True, 0),
        (r"\boxed{A. not sure}", "A", True, 0),
        (r"\boxed{A dog}", "A", True, 0),
        (r"\boxed{3:45}", "3:45", False, 1),
        (r"\boxed{3:45}", "1/15", False, 0),
        (r"\boxed{3:30 \text{ pm}}", "3:30 am", False, 0),
        (r"\boxed{3:30 pm}", "15:30", False, 1),
        (r"\boxed{2010-2012}", "-2", False, 0),
        (r"\boxed{2010 \text{ to } 2012}", "2010-2012", False, 1),
        (r"\boxed{2024-05-03}", "2016", False, 0),
        (r"\boxed{5 \text{ million}}", "5", False, 0),
        (r"\boxed{5 \text{ million}}", "5,000,000", False, 1),
        (r"\boxed{\text{at least } 3}", "3", False, 0),
        (r"\boxed{5}", "five", False, 1),
        (r"\boxed{\text{five}}", "5", False, 1),
        (r"\boxed{1/2}", "one half", False, 1),
        (r"\boxed{H_2O}", "H2O", False, 1),
        (r"\boxed{\text{Section 31}}", "Section 3.1", False, 0),
        (r"\boxed{x + 1}", "1 + x", False, 1),
        (r"\boxed{\text{Stop sign}}", "stop sign", False, 1),
        (r"\boxed{right}", "left", False, 0),  # similar letters earn nothing
        (r"\boxed{[[0, 0, 10, 10]]}", "[[0, 0, 10, 10]]", False, 1),
        (r"\boxed{[ [ 0 , 0 , 10 , 5 ] ]}", "[[0, 0, 10, 10]]", False, 0.5),
        (r"\boxed{nowhere}", "[[0, 0, 10, 10]]", False, 0),
    ],
)
def test_final_answers_are_scored_by_rules_alone(response, answer, options, score):
    assert score_answer(response, answer, options=options) == score


@pytest.mark.parametrize(
    ("reference", "response", "score"),
    [
        ("list_verify(target=['M-30', 'M-31'])", r"\boxed{M-31, M-30}", 1),
        ("time_verify(target='18:15', tformat='%H:%M')", r"\boxed{18:15}", 1),
        ("point_verify(target=[[500, 500]])", r"\boxed{[500, 500]}", 1),
    ],
)
def test_every_verifier_gets_its_argument(reference, response, score):
    assert run_verifier(reference, answer_predict(response, reference)) == score


@given(st.text(max_size=200), st.sampled_from(["3", "B", "left", "[[1, 2, 3, 4]]", r"\frac12"]))
def test_any_response_has_a_score(response, answer):
    assert 0 <= score_answer(response, answer, options=answer == "B") <= 1


@settings(deadline=None)  # a formula's first parse starts a process
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60).filter(str.strip))
def test_any_reference_answer_makes_a_readable_call_or_says_that_it_cannot(answer):
    reference = answer_call(answer)
    with suppress(CannotVerify):
        assert 0 <= run_verifier(reference, answer_predict(f"\\boxed{{{answer}}}", reference)) <= 1
