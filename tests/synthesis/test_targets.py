"""References that call a verifier: which can be read and met, and which go with what reason."""

import pytest

from rubricworks.synthesis import ChecklistDraft, lint_checklist
from rubricworks.synthesis.targets import NO_CALL, NO_TARGET, OUTSIDE, UNKNOWN, UNMEETABLE, UNREADABLE, WEEKDAY


def reason(reference):
    """Reason that a criterion with this reference is dropped; None if it stays."""
    item = {"criterion": "The response gives it.", "reference": reference, "weight": 2}
    return next((why for _, why in lint_checklist(ChecklistDraft(essential=(item,)))[1]), None)


@pytest.mark.parametrize(
    ("reference", "fault"),
    [
        ("math_verify(target='3')", UNKNOWN),
        ("Use expr_verify(target='3')", NO_CALL),
        ("expr_verify(predict='3')", NO_CALL),
        ("expr_verify(target=open('x'))", NO_CALL),
        ("expr_verify(target='3'); 1", NO_CALL),
        ("expr_verify()", NO_TARGET),
        ("text_verify(ignore_case=True)", NO_TARGET),
        ("expr_verify(target='')", UNREADABLE),
        ("expr_verify(target='The response names each step of the solution and says why it holds')", UNREADABLE),
        ("list_verify(target=[])", UNREADABLE),
        ("list_verify(target='M-30')", UNREADABLE),
        ("bbox_verify(target=[1, 2, 3, 4])", UNREADABLE),
        ("bbox_verify(target=[[10, 10, 5, 20]])", UNMEETABLE),
        ("bbox_verify(target=[[10, 10, 1920, 1080]])", OUTSIDE),
        ("point_verify(target=[[-5, 20]])", OUTSIDE),
        ("time_verify(target='18:15')", UNREADABLE),
        ("time_verify(target='18:15', tformat='%I:%M')", UNREADABLE),
        ("time_verify(target='Mon 18:15', tformat='%a %H:%M')", WEEKDAY),
        ("time_verify(target='Monday 18:15', tformat='Monday %H:%M')", WEEKDAY),
    ],
)
def test_a_reference_that_no_response_could_be_scored_by_is_dropped(reference, fault):
    assert reason(reference) == fault


@pytest.mark.parametrize(
    "reference",
    [
        r"expr_verify(target=r'\frac{4}{6}')",
        r"expr_verify(target='\sqrt{2}')",
        r"text_verify(target='\nu + \alpha', use_latex=True)",
        "text_verify(target='It\\'s \"on\"')",
        "list_verify(candidates=[['a', 'b'], ['c']])",
        "point_verify(target=[[591, 234]])",
        "time_verify(target='3 May 2021', tformat='%d %B %Y')",
    ],
)
def test_targets_that_can_be_read_stay(reference):
    assert reason(reference) is None
