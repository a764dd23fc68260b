"""DCScore, CaptionQA, CAPTURE and SPECS against the benchmarks' own code; the cases name its commits."""

import json
from pathlib import Path

import pytest

from rubricworks.metrics import (
    DCScore,
    FactScore,
    StatedFact,
    capture_score,
    dc_score,
    extract_letter,
    is_yes_no,
    mean_dc_score,
    offered_options,
    specs_score,
    synonym_score,
)

CASES = json.loads((Path(__file__).parent / "data" / "x_benchmarks.json").read_text())
DC, QA, CAPTURE = CASES["dcscore"], CASES["captionqa"], CASES["capture"]


def stated(case):
    positions = {fact["id"]: number for number, fact in enumerate(case["oracle"])}
    checked = {entry["fact"]: bool(entry["verification"]) for entry in case["verification"]}
    return [
        StatedFact(
            fact=fact["fact"],
            relevant=bool(fact["relevance"]),
            is_true=checked[fact["fact"]],
            reference=positions.get(case["mapping"][fact["fact"]]),
        )
        for fact in case["predicted"]
    ]


@pytest.mark.parametrize("case", DC["pr_cases"])
def test_precision_recall_and_f1_of_all_facts_and_of_the_relevant_ones(case):
    score = dc_score(stated(case), [bool(fact["relevance"]) for fact in case["oracle"]])
    results = {
        name + suffix: value
        for suffix, part in (("", score.every), ("_relevant", score.relevant))
        for name, value in zip(("precision", "recall", "f1_score", "total_atomic_facts"), part, strict=True)
    }
    assert results.keys() == case["expected"].keys()
    assert results == pytest.approx(case["expected"], abs=1e-12)


@pytest.mark.parametrize("case", DC["aggregate_cases"])
def test_aggregate_of_f1s(case):
    details = [item["eval_details"] for item in case["items"] if item["valid"]]
    scores = [
        DCScore(FactScore(0, 0, detail["f1_score"], 1), FactScore(0, 0, detail["f1_score_relevant"], 1))
        for detail in details
    ]
    assert f"DCScore: {mean_dc_score(scores):.2f}" == case["expected_stdout"].splitlines()[-1]


@pytest.mark.parametrize("case", QA["extract"])
def test_letter_of_an_answer(case):
    assert extract_letter(case["response"], case["num_options"]) == case["expected"]


@pytest.mark.parametrize("case", QA["yesno"])
def test_yes_or_no_questions_and_the_option_of_the_others(case):
    assert is_yes_no(case["question"], case["choices"]) == case["expected"]
    assert list(offered_options(case["question"], case["choices"])) == case["expected_with_option"]


@pytest.mark.parametrize("case", CAPTURE["cases"], ids=range(len(CAPTURE["cases"])))
def test_capture_with_and_without_synonyms(case, request):
    if case["synonym_matching"]:
        request.getfixturevalue("wordnet")
    score = capture_score(case["gt"], case["cand"], synonyms=case["synonym_matching"])
    assert score == pytest.approx(case["expected"], abs=1e-12)
    assert list(score) == list(case["expected"])


@pytest.mark.usefixtures("wordnet")
@pytest.mark.parametrize("case", CAPTURE["soft_cases"], ids=range(len(CAPTURE["soft_cases"])))
def test_capture_with_synonyms_and_vectors(case):
    score = capture_score(case["gt"], case["cand"], vectors=CAPTURE["soft_vectors"])
    assert score == pytest.approx(case["expected"], abs=1e-12)


@pytest.mark.usefixtures("wordnet")
@pytest.mark.parametrize("case", CAPTURE["synonym"], ids=lambda case: f"{case['a']} {case['b']}")
def test_synonym_score(case):
    assert synonym_score(case["a"], case["b"]) == pytest.approx(case["expected"], abs=1e-12)


SPECS = CASES["specs_formula"]["cases"]


@pytest.mark.parametrize("case", SPECS, ids=range(len(SPECS)))
def test_specs(case):
    # The reference code computes in float32.
    assert specs_score(case["image"], case["texts"]) == pytest.approx(case["expected"], abs=3e-7)
