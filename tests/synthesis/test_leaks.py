"""Criteria that give their answer away, and those that only look so."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.synthesis import ChecklistDraft, lint_checklist
from rubricworks.synthesis.checklist_lint import LEAK
from rubricworks.synthesis.leaks import gives_away

RIDDLE = "is the red circle left of or right of the star ?"
CHOICE = "what colour is it ? A red B green"


def reason(criterion, reference, question):
    """Reason that a criterion is dropped; None if it stays."""
    item = {"criterion": criterion, "reference": reference, "weight": 2}
    return next((why for _, why in lint_checklist(ChecklistDraft(essential=(item,)), question=question)[1]), None)


@pytest.mark.parametrize(
    ("criterion", "reference", "question"),
    [
        ("The final answer gives 7 nests.", "expr_verify(target='7')", ""),
        ("The final answer gives seven nests.", "expr_verify(target='7')", ""),
        ("The response finds that there are two nests.", "expr_verify(target='2')", ""),
        ("The final answer is 1,000 m.", "expr_verify(target='1000')", ""),
        ("The length is 3.5cm.", "expr_verify(target='3.5')", ""),
        ("The final answer is 2/3.", "expr_verify(target='2/3')", ""),
        ("The sign reads “Export-Volume”.", "text_verify(target='Export Volume')", ""),
        ("The sign reads Main St.", "text_verify(candidates=['Main Street', 'Main St'])", ""),
        ("The list has M-31 in it.", "list_verify(target=['M-30', 'M-31'])", ""),
        ("The box is [21, 21, 312, 312].", "bbox_verify(target=[[21, 21, 312, 312]])", ""),
        ("The train leaves at 18:15.", "time_verify(target='18:15', tformat='%H:%M')", ""),
        ("图中的锅炉有名称。", "text_verify(target='锅炉')", ""),
        ("The response names the heron.", "a heron", ""),
        ("The response describes two grey herons.", "two grey herons", ""),
        ("The final answer is B.", "expr_verify(target='B')", ""),
        ("The final answer is B.", "expr_verify(target='B')", CHOICE),
        ("The final answer gives option A.", "expr_verify(target='A')", CHOICE),
        ("The final answer gives left.", "left", RIDDLE),
        ("The final answer says that the circle is left of the star.", "left", RIDDLE),
    ],
)
def test_a_criterion_that_holds_its_target_is_dropped(criterion, reference, question):
    assert reason(criterion, reference, question) == LEAK


@pytest.mark.parametrize(
    ("criterion", "reference", "question"),
    [
        ("The final answer gives the length in cm to 3 places.", "expr_verify(target='3.141')", ""),
        ("The response compares the two nests.", "expr_verify(target='2')", ""),
        ("The response reads M31 on the sign.", "expr_verify(target='31')", ""),
        ("The final answer gives the letter of the right option.", "expr_verify(target='B')", CHOICE),
        ("A response gives the letter of an option.", "expr_verify(target='A')", ""),
        ("The final answer gives the side on which the red circle is.", "left", RIDDLE),
        ("The response says whether the circle is left of or right of the star.", "left", RIDDLE),
        (
            "The final answer gives the number of the bus in picture 3.",
            "expr_verify(target='3')",
            "which bus is in picture 3?",
        ),
        ("The response names the party in the chart.", "text_verify(target='art')", ""),
        ("The response describes the object at left.", "a big red circle", RIDDLE),
    ],
)
def test_a_criterion_that_only_looks_as_if_it_held_its_target_stays(criterion, reference, question):
    assert reason(criterion, reference, question) is None


@given(text=st.text(max_size=40), secret=st.text(max_size=10), question=st.text(max_size=40))
@settings(max_examples=300)
def test_looking_for_leaks_stands_every_text_and_finds_a_word_that_is_there(text, secret, question):
    gives_away(text, secret, question)
    assert gives_away(f"{text} the answer is zebra.", "Zebra")
    assert gives_away(f"{text} - 4711", "4711")
