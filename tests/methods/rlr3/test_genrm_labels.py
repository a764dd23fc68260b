"""Labels of a GenRM: medians against brute force, values of a teacher that had the median, what is written of them."""

import itertools
import json
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.data.tables import Sample
from rubricworks.grading import ScoredItem, Scoring, check_scoring, scoring_request
from rubricworks.methods.rlr3.genrm_labels import loses_credit, median_label, write_scoring
from rubricworks.rubrics import Criterion, Rubric

RUBRIC = Rubric(
    criteria=(
        Criterion(criterion="The number is right.", reference="expr_verify(target='4')", weight=3),
        Criterion(criterion="The left is described.", reference="a red circle", weight=1, essential=False),
        Criterion(criterion="The box is right.", reference="bbox_verify(target=[[0, 0, 10, 10]])", weight=2),
    )
)


def scoring(number: str, step: float, box: str = "[[0, 0, 10, 10]]") -> Scoring:
    return Scoring(
        thought="so it is",
        essential=(
            ScoredItem(criterion="The number is right.", rationale="r", credit=f"expr_verify(predict={number!r})"),
            ScoredItem(criterion="The box is right.", rationale="r", credit=f"bbox_verify(predict={box})"),
        ),
        additional=(ScoredItem(criterion="The left is described.", rationale="r", credit=step),),
    )


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=7))
def test_fuzzy_credit_is_the_lower_median(credits):
    label = median_label([scoring("4", credit) for credit in credits], RUBRIC)
    assert label.additional[0].credit == statistics.median_low(credits)


@pytest.mark.parametrize(
    "boxes", itertools.permutations(["[]", "[[0, 0, 10, 5]]", "[[0, 0, 10, 8]]", "[[0, 0, 5, 2]]"])
)
def test_value_is_that_of_a_teacher_whose_credit_is_the_lower_median(boxes):
    label = median_label([scoring("4", 1, box) for box in boxes], RUBRIC)
    # Overlaps with the target: 0, 0.5, 0.8, 0.1.
    assert label.essential[1].credit == "bbox_verify(predict=[[0, 0, 5, 2]])"


def test_of_the_values_with_the_median_credit_most_teachers_choose():
    label = median_label([scoring(number, 1) for number in ("7", "5", "4", "5")], RUBRIC)
    assert label.essential[0].credit == "expr_verify(predict='5')"
    tied = median_label([scoring(number, 1) for number in ("7", "5", "5", "7")], RUBRIC)
    assert tied.essential[0].credit == "expr_verify(predict='7')"


def test_value_right_in_other_words_than_the_target_counts_as_right():
    label = median_label([scoring("8/2", 1), scoring("4", 1), scoring("9", 1)], RUBRIC)
    assert label.essential[0].credit == "expr_verify(predict='8/2')"


def test_criteria_stand_in_the_lists_of_the_schema():
    label = median_label([scoring("4", 0.5)], RUBRIC)
    assert [item.criterion for item in label.essential] == ["The number is right.", "The box is right."]
    assert [item.criterion for item in label.additional] == ["The left is described."]


def told_by(name: str, number: str, step: float) -> Scoring:
    """A scoring whose thought and rationales bear the teacher's name."""
    given = scoring(number, step)
    named = {
        part: tuple(item.model_copy(update={"rationale": name}) for item in getattr(given, part)) for part in PARTS
    }
    return given.model_copy(update={"thought": f"thought by {name}", **named})


PARTS = ("essential", "additional")


def test_label_keeps_the_rationales_of_the_teachers_that_agree_with_it():
    teachers = [told_by("a", "4", 0), told_by("b", "5", 0.5), told_by("c", "5", 1)]
    label = median_label(teachers, RUBRIC)
    assert label.essential[0].credit == "expr_verify(predict='5')"
    # All agree on the box; only the second has the median of the fuzzy criterion.
    assert [item.rationale for item in label.essential] == ["b", "a"]
    assert label.additional[0].rationale == "b"
    assert label.thought == "thought by b"


def test_label_without_reasoning_has_the_same_credits_and_no_words():
    teachers = [told_by("a", "4", 0), told_by("b", "5", 0.5), told_by("c", "5", 1)]
    label, bare = (median_label(teachers, RUBRIC, reasoning=reasoning) for reasoning in (True, False))
    assert bare.thought == ""
    for part in PARTS:
        assert [item.credit for item in getattr(bare, part)] == [item.credit for item in getattr(label, part)]
        assert {item.rationale for item in getattr(bare, part)} == {""}


def test_criterion_whose_target_no_call_can_be_compared_with_is_an_error():
    time = Criterion(criterion="The time is right.", reference="time_verify(target='now', tformat='%H:%M')", weight=1)
    item = ScoredItem(criterion=time.criterion, rationale="", credit="time_verify(predict='8:00', pformat='%H:%M')")
    with pytest.raises(ValueError, match="The time is right"):
        median_label([Scoring(thought="", essential=(item,))] * 2, Rubric(criteria=(time,)))


def test_no_scoring_makes_no_label():
    with pytest.raises(ValueError, match="no teacher"):
        median_label([], RUBRIC)


@pytest.mark.parametrize(
    ("number", "step", "box", "loses"),
    [
        ("4", 1, "[[0, 0, 10, 10]]", False),
        ("5", 1, "[[0, 0, 10, 10]]", True),
        ("4", 0.5, "[[0, 0, 10, 10]]", True),
        ("4", 1, "[[0, 0, 10, 9]]", True),
    ],
)
def test_response_loses_credit_when_any_criterion_falls_short(number, step, box, loses):
    assert loses_credit(scoring(number, step, box), RUBRIC) is loses


def test_written_label_is_the_schema_of_the_paper_and_reads_back():
    label = median_label([scoring("4", 1)], RUBRIC, reasoning=False)
    text = write_scoring(label)
    assert json.loads(text) == {
        "thought": "",
        "essential": [
            {"criterion": "The number is right.", "rationale": "", "credit": "expr_verify(predict='4')"},
            {"criterion": "The box is right.", "rationale": "", "credit": "bbox_verify(predict=[[0, 0, 10, 10]])"},
        ],
        "additional": [{"criterion": "The left is described.", "rationale": "", "credit": 1}],
    }
    assert text.endswith('"credit": 1}]}')
    assert Scoring.model_validate_json(text) == label
    request = scoring_request(Sample(sample_id="s", question="q"), "r", RUBRIC)
    check_scoring(label, request)
