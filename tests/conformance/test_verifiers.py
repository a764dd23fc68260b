"""The verifiers against cases obtained from Math-Verify, RapidFuzz, SciPy and brute force."""

import json
from pathlib import Path

import pytest

from rubricworks.verifiers import bbox_verify, expr_verify, list_verify, point_verify, text_verify, time_verify


def cases(file: str, *keys: str) -> list[dict]:
    content = json.loads((Path(__file__).parent / "data" / f"{file}.json").read_text())
    for key in keys:
        content = content[key]
    return content


MATHEMATICS = [case for case in cases("a_math", "own") if case["truth"] is not None]
OFFICIAL = cases("math_verify_official", "official")
TEXTS = cases("b_text_similarity", "cases")
OUR_FLAGS = {
    "none": None,
    "casefold": "ignore_case",
    "remove_ws": "ignore_space",
    "remove_punct_unicode_P": "ignore_punc",
}


@pytest.mark.parametrize("case", MATHEMATICS, ids=lambda case: f"{case['gold']} {case['pred']}")
def test_expressions_are_equal_where_they_are_by_construction(case):
    assert expr_verify(case["pred"], target=case["gold"]) == case["truth"]


NUMERIC_TRUTH = [case for case in OFFICIAL if case["score_class"] == "numeric_truth"]


@pytest.mark.parametrize("case", NUMERIC_TRUTH, ids=lambda case: case["gold"][:30] + " " + case["pred"][-30:])
def test_numeric_truth_among_the_cases_of_math_verify_holds(case):
    assert expr_verify(case["pred"], target=case["gold"]) == case["expected"]


def test_all_but_a_few_of_the_policies_of_math_verify_are_ours_too():
    policies = [case for case in OFFICIAL if case["score_class"] == "official_policy"]
    others = [
        (case["gold"], case["pred"])
        for case in policies
        if expr_verify(case["pred"], target=case["gold"]) != case["expected"]
    ]
    # A false equation says none of its sides; an inequality is the interval that it describes, whichever side it is on;
    # f(x) is not f(y).
    assert others == [
        ("$10/9$", r"Answer $ \frac{1}{2} \$ = \frac{10}{9} $"),
        (r"$x \in [-2,7]$", r"$-2 \\le x \\le 7$"),
        ("$f(x)$", "$f(y)$"),
    ]


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: f"{case['a']!r} {case['b']!r}")
def test_text_similarity_is_that_of_rapidfuzz_after_each_normalisation(case):
    for flag, expected in case["by_flag"].items():
        similarity = text_verify(expected["a"], target=expected["b"])
        assert similarity == pytest.approx(expected["norm_similarity_max"], abs=1e-12), flag


@pytest.mark.parametrize("flag", OUR_FLAGS)
def test_a_flag_is_the_normalisation_of_its_name(flag):
    flags = {OUR_FLAGS[flag]: True} if OUR_FLAGS[flag] else {}
    results = [text_verify(case["a"], target=case["b"], **flags) for case in TEXTS]
    assert results == pytest.approx([case["by_flag"][flag]["norm_similarity_max"] for case in TEXTS], abs=1e-12)


@pytest.mark.parametrize("case", cases("i_misc", "latex_text"), ids=lambda case: f"{case['a']} {case['b']}")
def test_latex_is_compared_as_text_without_the_flag(case):
    assert text_verify(case["a"], target=case["b"]) == pytest.approx(case["raw_similarity"], abs=1e-12)
    without_space = text_verify(case["a"], target=case["b"], ignore_space=True)
    assert without_space == pytest.approx(case["nows_similarity"], abs=1e-12)


@pytest.mark.parametrize("case", cases("c_bbox_points", "bbox"), ids=lambda case: case["name"])
def test_boxes_score_the_best_pairing_over_the_larger_number(case):
    assert bbox_verify(case["pred"], target=case["gold"]) == pytest.approx(
        case["expected_score_over_larger"], abs=1e-12
    )


@pytest.mark.parametrize("case", cases("c_bbox_points", "points"), ids=lambda case: case["name"])
def test_points_score_linear_closeness_over_the_larger_number(case):
    score = point_verify(case["pred"], target=case["gold"], radius=case["threshold"])
    assert score == pytest.approx(case["expected"]["linear_decay_over_larger"], abs=1e-12)


LISTS = [case for case in cases("i_misc", "lists") if case["expected"]["over_larger"] is not None]


@pytest.mark.parametrize("case", LISTS, ids=lambda case: case["name"])
def test_lists_score_the_best_pairing_over_the_larger_number(case):
    score = list_verify(case["pred"], target=case["gold"])
    assert score == pytest.approx(case["expected"]["over_larger"], abs=1e-12)


TIMES = [case for case in cases("i_misc", "times") if case["equal"] is not None]


@pytest.mark.parametrize("case", TIMES, ids=lambda case: f"{case['a']} {case['b']}")
def test_times_are_equal_when_they_name_the_same_time_of_day(case):
    score = time_verify(case["a"], pformat=time_format(case["a"]), target=case["b"], tformat=time_format(case["b"]))
    assert score == case["equal"]


def time_format(text: str) -> str:
    halves = "m" in text.lower()
    return ("%I" if halves else "%H") + ":%M" + (":%S" if text.count(":") == 2 else "") + (" %p" if halves else "")
