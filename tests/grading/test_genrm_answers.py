"""Score of a GenRM's output against its label: form, slots, paths, values."""

import json

import pytest

from rubricworks.grading import ScoredItem, Scoring
from rubricworks.grading.genrm_answers import check_answer, parse_scoring, value_score
from rubricworks.rubrics import Criterion, Rubric

RUBRIC = Rubric(
    criteria=(
        Criterion(criterion="A", reference="text_verify(target='STOP', ignore_case=True)", weight=3),
        Criterion(criterion="B", reference="red", weight=1, essential=False),
        Criterion(criterion="C", reference="expr_verify(target='4')", weight=2),
    )
)
LABEL = Scoring(
    thought="",
    essential=(
        ScoredItem(criterion="A", rationale="", credit="text_verify(predict='GO')"),
        ScoredItem(criterion="C", rationale="", credit="expr_verify(predict='0.5')"),
    ),
    additional=(ScoredItem(criterion="B", rationale="", credit=0.5),),
)


def entry(criterion: str, credit: object) -> dict:
    return {"criterion": criterion, "rationale": "because", "credit": credit}


def output(a: object = "text_verify(predict='go')", c: object = "expr_verify(predict='1/2')", b: object = 0.5) -> dict:
    return {"thought": "hm", "essential": [entry("A", a), entry("C", c)], "additional": [entry("B", b)]}


def checked(answer: object) -> list[tuple]:
    result = check_answer(answer if isinstance(answer, str) else json.dumps(answer), LABEL, RUBRIC)
    return [(criterion.slot, criterion.executed, criterion.score) for criterion in result.criteria]


def test_values_are_compared_with_labels_by_the_rubrics_verifier():
    result = check_answer(json.dumps(output()), LABEL, RUBRIC)
    assert result.valid
    assert result.surplus == 0
    assert [criterion.verifiable for criterion in result.criteria] == [True, False, True]
    assert checked(output()) == [(True, True, 1.0)] * 3


def test_value_that_is_right_by_the_rubric_but_not_what_the_response_says_is_wrong():
    assert checked(output(a="text_verify(predict='STOP')"))[0][2] < 1
    assert checked(output(c="expr_verify(predict='4')"))[2] == (True, True, 0.0)


@pytest.mark.parametrize("text", ["", "so: {}", "null", "[]", "{}", '{"thought": "", "essential": []}', "{" * 5000])
def test_what_is_no_whole_object_is_not_valid_and_fails_everything(text):
    assert parse_scoring(text) is None
    assert checked(text) == [(False, False, 0.0)] * 3


@pytest.mark.parametrize(
    "spoil",
    [
        lambda answer: answer.update(thought=3),
        lambda answer: answer.update(comment=""),
        lambda answer: answer["essential"][0].update(credit=0.7),
        lambda answer: answer["essential"][0].update(credit=True),
        lambda answer: answer["essential"][0].update(credit=None),
        lambda answer: answer["additional"][0].pop("rationale"),
        lambda answer: answer["additional"][0].update(criterion=["B"]),
        lambda answer: answer.pop("additional"),
    ],
)
def test_missing_fields_further_fields_and_other_types_are_not_valid(spoil):
    answer = output()
    spoil(answer)
    assert not check_answer(json.dumps(answer), LABEL, RUBRIC).valid


def test_text_around_the_object_is_not_valid_but_white_space_is():
    text = json.dumps(output(), indent=2)
    assert check_answer(f"\n{text}\n", LABEL, RUBRIC).valid
    assert not check_answer(f"```json\n{text}\n```", LABEL, RUBRIC).valid
    assert not check_answer(f"{text} done", LABEL, RUBRIC).valid


@pytest.mark.parametrize(
    ("credit", "expected"),
    [
        (1, (True, False, 0.0)),
        ("yes", (True, False, 0.0)),
        ("expr_verify(predict='go')", (True, False, 0.0)),
        ("text_verify(predict='go', target='GO')", (True, False, 0.0)),
        ("text_verify()", (True, False, 0.0)),
        ("text_verify(predict=open('x'))", (True, False, 0.0)),
        ("text_verify(predict='')", (True, True, 0.0)),
    ],
)
def test_path_verifier_and_call_must_be_right_to_be_executed(credit, expected):
    assert checked(output(a=credit))[0] == expected


def test_call_where_a_judge_decides_is_the_wrong_path_and_another_credit_is_wrong():
    assert checked(output(b="text_verify(predict='red')"))[1] == (True, False, 0.0)
    assert checked(output(b=1))[1] == (True, True, 0.0)
    assert checked(output(b=0.50))[1] == (True, True, 1.0)


def test_criteria_are_matched_by_position_and_word_for_word():
    answer = output()
    answer["essential"].reverse()
    answer["additional"][0]["criterion"] = "b"
    assert checked(answer) == [(False, False, 0.0)] * 3
    answer = output()
    answer["essential"].insert(1, entry("D", 1))
    result = check_answer(json.dumps(answer), LABEL, RUBRIC)
    assert [criterion.slot for criterion in result.criteria] == [True, True, False]
    assert result.surplus == 1
    answer = output()
    answer["additional"] = []
    assert checked(answer)[1] == (False, False, 0.0)


@pytest.mark.parametrize(
    ("call", "label", "score"),
    [
        ("expr_verify(predict='')", "expr_verify(predict=' ')", 1.0),
        ("bbox_verify(predict=[])", "bbox_verify(predict='')", 1.0),
        ("expr_verify(predict='3')", "expr_verify(predict='')", 0.0),
        ("expr_verify(predict='')", "expr_verify(predict='3')", 0.0),
        ("bbox_verify(predict=[[0, 0, 10, 10]])", "bbox_verify(predict=[[0, 0, 10, 20]])", 0.5),
        ("bbox_verify(predict=[[1, 2, 3]])", "bbox_verify(predict=[[1, 2, 3]])", 1.0),
        ("bbox_verify(predict=[[1, 2, 3, 4]])", "bbox_verify(predict=[[1, 2, 3]])", 0.0),
        ("time_verify(predict='6:15 PM', pformat='%I:%M %p')", "time_verify(predict='18:15', pformat='%H:%M')", 1.0),
    ],
)
def test_two_extracted_values_agree_as_far_as_the_verifier_says(call, label, score):
    target = "target='00:00', tformat='%H:%M'" if call.startswith("time") else "target='7'"
    reference = f"{label.partition('(')[0]}({target})"
    assert value_score(call, label, reference) == pytest.approx(score)


def test_options_of_the_rubric_decide_how_values_are_compared():
    calls = ("point_verify(predict=[[10, 10]])", "point_verify(predict=[[10, 40]])")
    near, far = (value_score(*calls, f"point_verify(target=[[0, 0]], radius={radius})") for radius in (100, 10))
    assert near > far == 0.0


def test_label_that_does_not_fit_the_rubric_is_an_error():
    with pytest.raises(ValueError, match="no entry for 'B'"):
        check_answer("{}", LABEL.model_copy(update={"additional": ()}), RUBRIC)
