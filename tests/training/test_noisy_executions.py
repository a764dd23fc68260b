"""Careless executions: each fault as often as it says, and nothing else."""

import json
import random
from collections import Counter

import pytest

from rubricworks.grading import ScoredItem, Scoring
from rubricworks.grading.genrm_answers import check_answer
from rubricworks.methods.rlr3.genrm_labels import write_scoring
from rubricworks.methods.rlr3.noisy_executions import Carelessness, careless_execution
from rubricworks.rubrics import Criterion, Rubric

RUBRIC = Rubric(
    criteria=(
        Criterion(criterion="The number is right.", reference="expr_verify(target='4')", weight=3),
        Criterion(criterion="The box is right.", reference="bbox_verify(target=[[0, 0, 9, 9]])", weight=3),
        Criterion(criterion="The left is described.", reference="red", weight=1, essential=False),
    )
)
LABEL = Scoring(
    thought="",
    essential=(
        ScoredItem(criterion="The number is right.", rationale="", credit="expr_verify(predict='3')"),
        ScoredItem(criterion="The box is right.", rationale="", credit="bbox_verify(predict=[[1, 1, 9, 9]])"),
    ),
    additional=(ScoredItem(criterion="The left is described.", rationale="", credit=0.5),),
)
NONE = Carelessness(
    truncated=0, paraphrased=0, judged=0, judged_habit=(), wrong_verifier=0, wrong_value=0, wrong_credit=0, habit=0
)


def executions(faults: Carelessness, count: int = 400) -> list[str]:
    rng = random.Random(1)
    others = {"expr_verify": "expr_verify(predict='8')", "bbox_verify": "bbox_verify(predict=[[5, 5, 6, 6]])"}
    return [careless_execution(LABEL, RUBRIC, others.__getitem__, faults, rng) for _ in range(count)]


def test_without_faults_it_is_the_label():
    assert set(executions(NONE)) == {write_scoring(LABEL)}


def test_same_random_state_spoils_the_same_way():
    assert executions(Carelessness()) == executions(Carelessness())


@pytest.mark.parametrize(
    ("fault", "slots", "executed", "scores"),
    [
        ("paraphrased", [0, 0, 0], [0, 0, 0], [0, 0, 0]),
        ("judged", [1, 1, 1], [0, 0, 1], [0, 0, 1]),
        ("wrong_verifier", [1, 1, 1], [0, 0, 1], [0, 0, 1]),
        ("wrong_value", [1, 1, 1], [1, 1, 1], [0, 0, 1]),
        ("wrong_credit", [1, 1, 1], [1, 1, 1], [1, 1, 0]),
    ],
)
def test_each_fault_spoils_what_it_names(fault, slots, executed, scores):
    for text in executions(NONE.model_copy(update={fault: 1.0}), 40):
        check = check_answer(text, LABEL, RUBRIC)
        assert check.valid
        assert [criterion.slot for criterion in check.criteria] == slots
        assert [criterion.executed for criterion in check.criteria] == executed
        assert [criterion.score > 0.99 for criterion in check.criteria] == scores


def test_truncated_text_is_no_json():
    for text in executions(NONE.model_copy(update={"truncated": 1.0}), 40):
        with pytest.raises(ValueError):
            json.loads(text)


def test_habits_strike_their_own_kind_as_often_as_they_say():
    faults = NONE.model_copy(update={"judged_habit": ("bbox_verify",), "habit": 0.7})
    counts = Counter()
    for text in executions(faults, 1000):
        answer = json.loads(text)
        counts["number"] += not isinstance(answer["essential"][0]["credit"], str)
        counts["box"] += not isinstance(answer["essential"][1]["credit"], str)
        counts["half"] += answer["additional"][0]["credit"] == 1
    assert counts["number"] == 0
    assert 640 < counts["box"] < 760
    assert 640 < counts["half"] < 760
