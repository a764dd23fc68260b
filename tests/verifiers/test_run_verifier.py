"""A rubric's call and an extractor's call: who gives what, and what is whose fault."""

import pytest

from rubricworks.verifiers import CannotVerify, run_verifier

PAPER = [
    ("text_verify(target='Export Volume', ignore_space=True)", "text_verify(predict='Export Volume')", 1),
    (r"expr_verify(target=r'\frac{4}{6}')", "expr_verify(predict='2/3')", 1),
    ("time_verify(target='18:15', tformat='%H:%M')", "time_verify(predict='18:15', pformat='%H:%M')", 1),
    ("list_verify(target=['M-30', 'M-31', 'M-31UK'])", "list_verify(predict=['M-30', 'M-31'])", 2 / 3),
    (
        "bbox_verify(target=[[531,118,892,435]])",
        "bbox_verify(predict=[[529,119,890,433]])",
        112726 / (113354 + 114437 - 112726),
    ),
    ("point_verify(target=[[591,234]])", "point_verify(predict=[[589,236]])", 1 - 8**0.5 / 100),
]  # fmt: skip


@pytest.mark.parametrize(("reference", "predict", "score"), PAPER, ids=lambda value: str(value)[:12])
def test_the_calls_of_the_paper(reference, predict, score):
    assert run_verifier(reference, predict) == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize(("reference", "predict", "_"), PAPER, ids=lambda value: str(value)[:12])
def test_an_empty_predict_scores_nothing(reference, predict, _):
    name = reference.split("(")[0]
    for empty in ("''", "[]", '"  "', "None", "()"):
        assert run_verifier(reference, f"{name}(predict={empty})") == 0


def test_an_empty_predict_scores_nothing_even_against_an_empty_target():
    assert run_verifier("text_verify(target='')", "text_verify(predict='')") == 0
    assert run_verifier("list_verify(target=[])", "list_verify(predict=[])") == 0


def test_candidates_stand_in_for_the_target():
    assert run_verifier("text_verify(candidates=['STOP', 'Stop'])", "text_verify(predict='Stop')") == 1
    assert run_verifier("list_verify(candidates=[['a'], ['a', 'b']])", "list_verify(predict=['b', 'a'])") == 1


def test_latex_without_an_r_before_it_is_latex_on_both_sides():
    assert run_verifier(r"expr_verify(target='\frac{4}{6}')", r"expr_verify(predict='\frac{2}{3}')") == 1
    assert run_verifier("expr_verify(target='\frac{4}{6}')", "expr_verify(predict='\tfrac{2}{3}')") == 1


def test_faults_in_coordinates_are_the_verifiers_to_judge():
    assert run_verifier("bbox_verify(target=[[1,2,3,4]])", "bbox_verify(predict='(1,2),(3,4)')") == 0
    assert run_verifier("bbox_verify(target=[[1,2,3,4]])", "bbox_verify(predict=[[1,2,3,4],[5]])") == 0.5


REFUSED = {
    "different verifiers": ("text_verify(target='a')", "expr_verify(predict='a')"),
    "a target from the extractor": ("text_verify(target='a')", "text_verify(predict='b', target='b')"),
    "a flag from the extractor": ("text_verify(target='a')", "text_verify(predict='b', ignore_case=True)"),
    "a radius from the extractor": ("point_verify(target=[[1, 2]])", "point_verify(predict=[[3, 4]], radius=1e9)"),
    "a predict in the rubric": ("text_verify(target='a', predict='a')", "text_verify(predict='a')"),
    "no predict": ("text_verify(target='a')", "text_verify()"),
    "no format of the time": ("time_verify(target='18:15', tformat='%H:%M')", "time_verify(predict='18:15')"),
    "a hostile prediction": ("text_verify(target='a')", "text_verify(predict=open('/etc/passwd').read())"),
    "a hostile reference": ("text_verify(target=open('/etc/passwd').read())", "text_verify(predict='a')"),
    "a number instead of a call": ("text_verify(target='a')", "1"),
}
AT_FAULT = {
    "no target": ("expr_verify()", "expr_verify(predict='1')"),
    "no target and no candidates": ("text_verify(ignore_case=True)", "text_verify(predict='1')"),
    "no format": ("time_verify(target='18:15')", "time_verify(predict='18:15', pformat='%H:%M')"),
    "a flag that is no flag": ("text_verify(target='a', ignore_case='yes')", "text_verify(predict='a')"),
    "boxes in words": ("bbox_verify(target='left')", "bbox_verify(predict=[[1, 2, 3, 4]])"),
    "a formula that breaks off": (r"expr_verify(target=r'\frac{1}{')", "expr_verify(predict='1')"),
    "a judgement": ("expr_verify(target='the man is left of the bicycle')", "expr_verify(predict='True')"),
    "a weekday": ("time_verify(target='Monday', tformat='%A')", "time_verify(predict='Monday', pformat='%A')"),
    "a radius of nothing": ("point_verify(target=[[1, 2]], radius=0)", "point_verify(predict=[[1, 2]])"),
}


@pytest.mark.parametrize(("reference", "predict"), REFUSED.values(), ids=REFUSED.keys())
def test_calls_that_do_not_belong_together_are_refused(reference, predict):
    with pytest.raises(ValueError) as error:
        run_verifier(reference, predict)
    assert not isinstance(error.value, CannotVerify)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("reference", "predict"), AT_FAULT.values(), ids=AT_FAULT.keys())
def test_a_target_at_fault_is_told_from_a_wrong_answer(reference, predict):
    with pytest.raises(CannotVerify) as error:
        run_verifier(reference, predict)
    assert "\n" not in str(error.value)
