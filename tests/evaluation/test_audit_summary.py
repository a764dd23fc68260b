"""The rates of an audit, counted by hand on small tables."""

import pytest

from rubricworks.evaluation.audit.summary import (
    AuditRow,
    Share,
    agreement,
    criterion_outcomes,
    outcome_cell,
    table_cells,
)
from rubricworks.evaluation.audit.values import Annotation, annotate, label_annotations, predict_call
from rubricworks.rubrics import Criterion, ErrorClass, Rubric, Scorecard, Verdict

NUMBER = Criterion(criterion="Gives the number.", reference="expr_verify(target='3')", weight=3)
SIGN = Criterion(criterion="Reads the sign.", reference="text_verify(target='STOP', ignore_case=True)", weight=2)
COLOUR = Criterion(criterion="Says the colour.", reference="red", weight=1, essential=False)
RUBRIC = Rubric(criteria=(NUMBER, SIGN, COLOUR))


def row(deserved, credits, *, mode="adversarial", setting="text", sample_id="s", calls=("", "", "")):
    """Credits by position; None given is a judge that failed."""
    annotations = tuple(
        Annotation(criterion=criterion.criterion, credit=credit)
        for criterion, credit in zip(RUBRIC.criteria, deserved, strict=True)
    )
    verdicts = tuple(
        Verdict(
            criterion=criterion.criterion,
            credit=credit,
            error=ErrorClass.MALFORMED if credit is None else None,
            call=call,
        )
        for criterion, credit, call in zip(RUBRIC.criteria, credits, calls, strict=True)
    )
    card = Scorecard(sample_id=sample_id, response="r", judge="j", verdicts=verdicts)
    return AuditRow(sample_id, mode, None, setting, "q", "r", RUBRIC, annotations, card)


def test_false_positives_deserve_less_than_half_and_get_half_or_more():
    rows = [row((0, 0.5, 0), (1, 0, 0.5)), row((0.4, 1, 0), (0.49, 1, 0))]
    result = outcome_cell((outcome for each in rows for outcome in criterion_outcomes(each)), split=True)
    assert (result.average.count, result.average.criteria) == (2, 4)
    assert (result.arguments.count, result.arguments.criteria) == (1, 2)
    assert (result.credit.count, result.credit.criteria) == (1, 2)
    assert result.average.value == 0.5


def test_what_could_not_be_judged_is_counted_apart_and_is_no_number():
    result = outcome_cell(criterion_outcomes(row((0, 0, 0), (1, None, 0))), split=True)
    assert (result.average.count, result.average.criteria, result.unjudged) == (1, 2, 1)
    nothing = outcome_cell(criterion_outcomes(row((0, 0, 0), (None, None, None))), split=True)
    assert (nothing.average, nothing.unjudged) == (None, 3)


def test_criterion_whose_target_cannot_be_read_is_neither_deserved_nor_undeserved():
    assert [outcome.path for outcome in criterion_outcomes(row((None, 0, 1), (1, 1, 1)))] == ["arguments"]


def test_average_is_over_criteria_not_over_the_two_parts():
    # One of three verifiable ones and the only judged one: 2 of 4, not the mean of 1/3 and 1.
    rows = [row((0, 0, 0), (1, 0, 1)), row((0, 1, 1), (0, 1, 1))]
    result = outcome_cell((outcome for each in rows for outcome in criterion_outcomes(each)), split=True)
    assert result.average.value == 0.5
    assert result.arguments.value == pytest.approx(1 / 3)
    assert result.credit.value == 1


def test_without_verifier_there_is_no_split():
    rows = [row((0, 0, 1), (1, 0, 1), setting=setting) for setting in ("unverified", "text")]
    cells = table_cells(rows)
    assert list(cells) == ["text", "unverified"]
    assert cells["unverified"]["adversarial"].average == cells["text"]["adversarial"].average
    assert cells["unverified"]["adversarial"].arguments is None
    assert cells["text"]["adversarial"].arguments is not None


def test_inputs_are_drawn_whole_so_more_criteria_of_one_input_make_nothing_surer():
    one_each = [row((0, 1, 1), (number % 2, 1, 1), sample_id=str(number)) for number in range(40)]
    twice = [row((0, 0, 1), (number % 2, number % 2, 1), sample_id=str(number)) for number in range(40)]
    single, double = (
        outcome_cell((outcome for each in rows for outcome in criterion_outcomes(each)), split=False).average
        for rows in (one_each, twice)
    )
    assert (single.low, single.high) == (double.low, double.high)
    assert (single.criteria, double.criteria, single.inputs) == (40, 80, 40)
    alone = outcome_cell(criterion_outcomes(row((0, 0, 0), (1, 0, 0))), split=False).average
    assert (alone.low, alone.high) == (None, None)


@pytest.mark.parametrize(
    ("criterion", "label", "value", "right"),
    [
        (NUMBER, "expr_verify(predict='4')", "expr_verify(predict='8/2')", 1),  # the label's value, not the target
        (NUMBER, "expr_verify(predict='4')", "expr_verify(predict='3')", 0),
        (NUMBER, "expr_verify(predict='')", "expr_verify(predict='')", 1),
        (NUMBER, "expr_verify(predict='')", "expr_verify(predict='3')", 0),
        (NUMBER, "expr_verify(predict='3')", "expr_verify(predict='')", 0),
        (SIGN, "text_verify(predict='Go')", "text_verify(predict='GO')", 1),
    ],
)
def test_values_of_regular_responses_are_held_against_the_label_by_the_verifier(criterion, label, value, right):
    verdict = Verdict(criterion=criterion.criterion, credit=0, call=value)
    annotation = Annotation(criterion=criterion.criterion, call=label, credit=0)
    assert agreement(criterion, annotation, verdict) == right


def test_credits_of_regular_responses_agree_if_they_are_equal():
    labels = [Annotation(criterion=COLOUR.criterion, credit=credit) for credit in (0.5, 1)]
    assert [agreement(COLOUR, label, Verdict(criterion="c", credit=0.5)) for label in labels] == [1, 0]
    failed = Verdict(criterion="c", error=ErrorClass.TRANSPORT)
    assert agreement(COLOUR, labels[0], failed) is None
    assert agreement(NUMBER, Annotation(criterion="c", call="expr_verify(predict='4')", credit=0), failed) is None


def test_judge_without_verifiers_is_held_against_the_credit_of_the_labels_value():
    label = Annotation(criterion=SIGN.criterion, call="text_verify(predict='STOPP')", credit=8 / 9)
    agreements = [agreement(SIGN, label, Verdict(criterion="c", credit=c), verified=False) for c in (0, 0.5, 1)]
    assert agreements == [0, 0, 1]


def test_label_becomes_calls_with_their_credit_and_credits():
    label = """{"thought": "", "essential": [
        {"criterion": "Gives the number.", "rationale": "r", "credit": "expr_verify(predict='6/2')"},
        {"criterion": "Reads the sign.", "rationale": "", "credit": "text_verify(predict='')"}],
        "additional": [{"criterion": "Says the colour.", "rationale": "", "credit": 0.5}]}"""
    result = label_annotations(label, RUBRIC)
    assert [(annotation.call, annotation.credit) for annotation in result] == [
        ("expr_verify(predict='6/2')", 1),
        ("text_verify(predict='')", 0),
        ("", 0.5),
    ]


@pytest.mark.parametrize(
    ("reference", "value", "call"),
    [
        ("expr_verify(target='3')", 4, "expr_verify(predict='4')"),
        ("expr_verify(target='3')", "", "expr_verify(predict='')"),
        ("expr_verify(target='3')", None, "expr_verify(predict='')"),
        ("list_verify(target=['a'])", "b", "list_verify(predict=['b'])"),
        ("list_verify(target=['a'])", [], "list_verify(predict=[])"),
        ("bbox_verify(target=[[1, 2, 3, 4]])", "[[5, 6, 7, 8]]", "bbox_verify(predict=[[5, 6, 7, 8]])"),
        (
            "time_verify(target='18:15', tformat='%H:%M')",
            "6:15",
            "time_verify(predict='6:15', pformat='%H:%M')",
        ),
    ],
)
def test_stated_values_become_verifier_arguments(reference, value, call):
    assert predict_call(reference, value) == call


def test_verifier_decides_what_a_stated_value_deserves():
    assert annotate(NUMBER, "6/2", 0, "wrong, says the annotator").credit == 1
    assert annotate(COLOUR, "scarlet", 0.5, "nearly").credit == 0.5
    with pytest.raises(ValueError, match="nothing for expr_verify; give text"):
        annotate(NUMBER, {"value": 3}, 0, "")


def test_rate_of_0_is_as_sure_as_its_number_of_inputs():
    rows = [row((0, 0, 0), (0, 0, 0), sample_id=str(number)) for number in range(20)]
    result = outcome_cell((outcome for each in rows for outcome in criterion_outcomes(each)), split=False).average
    assert (result.value, result.count, result.criteria, result.inputs) == (0, 0, 60, 20)
    assert (result.low, result.high) == (0, pytest.approx(0.161125, abs=1e-6))  # 1.959964² / (20 + 1.959964²)
    stored = {"value": 0.1, "low": None, "high": None, "count": 1.0, "criteria": 10, "inputs": 1}
    assert Share.model_validate(stored).model_dump() == stored
