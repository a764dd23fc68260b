"""Table 4 by hand: five outputs for one rubric of a verifiable and two fuzzy criteria."""

import json

import pytest

from rubricworks.grading import ScoredItem, Scoring
from rubricworks.methods.rlr3.genrm_report import MEASURES, genrm_report
from rubricworks.rubrics import Criterion, Rubric

RUBRIC = Rubric(
    criteria=(
        Criterion(criterion="The number is right.", reference="expr_verify(target='4')", weight=3),
        Criterion(criterion="The left is described.", reference="a red circle", weight=1, essential=False),
        Criterion(criterion="The right is described.", reference="a blue star", weight=1, essential=False),
    )
)


def scoring(number: object, left: object, right: object, **names: str) -> str:
    titles = {"a": "The number is right.", "b": "The left is described.", "c": "The right is described.", **names}
    items = [
        {"criterion": titles[key], "rationale": "", "credit": credit}
        for key, credit in zip("abc", (number, left, right), strict=True)
    ]
    return json.dumps({"thought": "", "essential": items[:1], "additional": items[1:]})


LABEL = Scoring(
    thought="",
    essential=(ScoredItem(criterion="The number is right.", rationale="", credit="expr_verify(predict='1/2')"),),
    additional=(
        ScoredItem(criterion="The left is described.", rationale="", credit=1),
        ScoredItem(criterion="The right is described.", rationale="", credit=0.5),
    ),
)
OUTPUTS = [
    scoring("expr_verify(predict='0.5')", 1, 0.5),  # all right
    scoring("expr_verify(predict='4')", 1, 0),  # a wrong argument and a wrong credit
    scoring("text_verify(predict='1/2')", 1, 0.5),  # another verifier
    scoring(1, 1, 0.5, b="The left is good."),  # the wrong path, and one slot paraphrased
    scoring("expr_verify(predict='0.5')", 1, 0.5)[:-1],  # no JSON
]


def test_seven_figures_of_five_outputs():
    report = genrm_report((output, LABEL, RUBRIC) for output in OUTPUTS)
    assert (report.outputs, report.criteria) == (5, 15)
    expected = {
        "schema_accuracy": 4 / 5,
        "criterion": (3 + 3 + 3 + 2 + 0) / 15,
        "execution": (3 + 3 + 2 + 1 + 0) / 15,
        "arguments": 1 / 2,  # executed in the first two outputs
        "credit": (2 + 1 + 2 + 1) / (2 + 2 + 2 + 1),
        "criterion_level": (3 + 1 + 2 + 1 + 0) / 15,
        "sample_level": 1 / 5,
    }
    assert set(expected) == set(MEASURES)
    assert report.metrics() == pytest.approx(expected)
    for name in MEASURES:
        interval = getattr(report, name)
        assert interval.low <= interval.value <= interval.high
        assert interval.low < interval.high


def test_criterion_level_is_execution_times_what_was_right_of_the_executed():
    figures = genrm_report((output, LABEL, RUBRIC) for output in OUTPUTS).metrics()
    executed = figures["execution"] * 15
    right = 2 * figures["arguments"] + (executed - 2) * figures["credit"]
    assert figures["criterion_level"] == pytest.approx(right / 15)


def test_an_entry_too_many_fails_the_sample_and_no_criterion():
    answer = json.loads(OUTPUTS[0])
    answer["additional"].append({"criterion": "It is short.", "rationale": "", "credit": 1})
    figures = genrm_report([(json.dumps(answer), LABEL, RUBRIC)]).metrics()
    assert figures == dict.fromkeys(MEASURES, 1.0) | {"sample_level": 0.0}


def test_value_that_is_nearly_the_labels_is_not_right():
    rubric = Rubric(criteria=(Criterion(criterion="B", reference="bbox_verify(target=[[0, 0, 9, 9]])", weight=1),))

    def item(box: str) -> ScoredItem:
        return ScoredItem(criterion="B", rationale="", credit=f"bbox_verify(predict={box})")

    label = Scoring(thought="", essential=(item("[[0, 0, 10, 10]]"),))
    near = {"thought": "", "essential": [item("[[0, 0, 10, 11]]").model_dump()], "additional": []}
    figures = genrm_report([(json.dumps(near), label, rubric)]).metrics()
    assert (figures["execution"], figures["arguments"], figures["sample_level"]) == (1.0, 0.0, 0.0)


def test_figure_without_anything_to_take_a_share_of_is_none():
    report = genrm_report([("no JSON", LABEL, RUBRIC)])
    assert report.arguments is None is report.credit
    assert "arguments" not in report.metrics()
    assert report.criterion_level.value == 0.0
