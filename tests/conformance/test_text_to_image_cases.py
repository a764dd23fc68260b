"""GenEval and DPG-Bench against the authors' code; the cases name its commits."""

import json
from pathlib import Path

import pytest

from rubricworks.metrics import (
    box_iou,
    dpg_categories,
    dpg_score,
    geneval_correct,
    geneval_reasons,
    geneval_summary,
    relative_position,
)

DATA = Path(__file__).parent / "data"
GENEVAL = json.loads((DATA / "h_geneval.json").read_text())
DPG = json.loads((DATA / "x_benchmarks.json").read_text())["dpg"]


def numbered(cases: list[dict]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=range(len(cases)))


@numbered(GENEVAL["iou"])
def test_intersection_over_union(case):
    assert box_iou(case["a"], case["b"]) == pytest.approx(case["expected"], abs=1e-12)


@numbered(GENEVAL["relative_position"])
def test_relative_position(case):
    assert relative_position(case["a"], case["b"]) == case["expected"]


@numbered(GENEVAL["evaluate"])
def test_image_and_reasons(case):
    expected = (case["expected_correct"], case["expected_reason_words_sorted"])
    assert geneval_correct(case["metadata"], case["detections"]) == expected
    assert sorted(" ".join(geneval_reasons(case["metadata"], case["detections"])).split()) == expected[1]


@pytest.mark.parametrize("case", GENEVAL["summary"], ids=lambda case: case["name"])
def test_summary(case):
    summary = geneval_summary(case["rows"])
    lines = [
        f"Total images: {summary['images']}",
        f"Total prompts: {summary['prompts']}",
        f"% correct images: {summary['correct_images']:.2%}",
        f"% correct prompts: {summary['correct_prompts']:.2%}",
    ]
    for task in dict.fromkeys(row["tag"] for row in case["rows"]):
        images = [row["correct"] for row in case["rows"] if row["tag"] == task]
        lines.append(f"{task:<16} = {summary[task]:.2%} ({sum(images)} / {len(images)})")
    lines.append(f"Overall score (avg. over tasks): {summary['overall']:.5f}")
    headings = ("Summary", "Task breakdown", "=")
    assert lines == [line for line in case["expected_stdout"].splitlines() if line and not line.startswith(headings)]


@numbered(DPG["cases"])
def test_score_of_each_image_and_of_the_prompt(case):
    scores = dpg_score(case["answers"], case["dependency"])
    assert scores == pytest.approx(case["expected_per_image"], abs=1e-12)
    assert sum(scores) / len(scores) == pytest.approx(case["expected_average"], abs=1e-12)


@numbered(DPG["cases"])
def test_categories_have_the_raw_answers_of_the_last_image(case):
    raw = case["expected_category_scores_last_image_raw"]
    categories = dpg_categories([(case["tuples"], case["answers"])])
    for level, name_of in (("l2", lambda text: text), ("l1", lambda text: text.split("-")[0].strip())):
        groups: dict[str, list[float]] = {}
        for question, text in case["tuples"].items():
            groups.setdefault(name_of(text.split("(")[0].strip()), []).append(raw[question])
        assert categories[level] == pytest.approx({name: sum(row) / len(row) for name, row in groups.items()})
