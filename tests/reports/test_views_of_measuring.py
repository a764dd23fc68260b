"""Kubeflow UI views of evaluation and release stages."""

import re

import pytest
import synthetic_balcaprl_run as balcaprl
import synthetic_rlr3_run as rlr3
import synthetic_run as folder
from report_page import text_of
from shown_stages import pictures, shown


def test_the_filter_shows_what_it_keeps_and_what_rollouts_earned(tmp_path):
    rlr3.write_questions(tmp_path)
    rlr3.write_corpus(tmp_path)
    row = {
        **{"sample_id": "count-1", "any": True, "essential": True, "kept": True, "multiple_choice": False},
        **{"rewards": "[0.0, null, 0.75]", "initial_reward": 0.375},
    }
    folder.write_table(tmp_path / "offline_filter", "filtered", [row])
    html, metrics = shown(tmp_path, "offline_filter", samples="prepare_questions")
    assert (metrics["kept"], metrics["filtered_any"], metrics["graded"]) == (20, 30, 40)
    assert "rollouts earned 0.00, –, 0.75" in text_of(html)  # noqa: RUF001  as the page writes what is missing


def test_evaluation_shows_captions_before_and_after_with_changed_criteria(tmp_path):
    folder.write_small_run(tmp_path)
    html, metrics = shown(tmp_path, "score", samples="prepare", rubrics="synthesize_rubrics")
    assert metrics["greedy/policy/arena_win"] == pytest.approx(0.75)
    assert metrics["greedy/policy/rubric_reward"] == pytest.approx(0.8)
    assert "Base model a black thing Oracle f1 50.0, Rubric reward 40.0" in text_of(html)
    assert "Trained policy preferred a black cat Oracle f1 90.0, Rubric reward 100.0" in text_of(html)
    assert html.count('<li class="gained">') == 2  # the cat is named now, on both images
    assert len(pictures(html)) == 2


def test_scored_captions_show_the_scores_and_the_claims(tmp_path):
    board = balcaprl.write_whole_run(tmp_path)
    html, metrics = shown(tmp_path, "score", samples="prepare")
    assert metrics == pytest.approx(board.metrics())
    assert metrics["greedy/policy/arena_win"] == pytest.approx(22 / 30)
    assert text_of(html).count("Claims of the caption") == 8  # of both models on each of four images
    assert "claim 0: the caption of policy" in text_of(html)
    assert len(pictures(html)) == 4


def test_answers_show_accuracy_over_milestones_and_who_is_right(tmp_path):
    rlr3.write_whole_run(tmp_path)
    html, metrics = shown(tmp_path, "score", samples="prepare_questions")
    means = {name: value for name, value in metrics.items() if name.endswith("answers_right")}
    assert means == {
        "greedy/base/answers_right": pytest.approx(0.4),
        "greedy/rlr3/answers_right": pytest.approx(0.9),
        "greedy/rlvr/answers_right": pytest.approx(0.6),
    }
    text = text_of(html)
    assert "Right answers of rlr3: 0.40 → 0.90." in text
    assert "rlr3 against rlvr, best milestones: +0.300" in text
    assert "Macro average 0.400 0.600 0.900" in text
    assert "Right answers, %, percent over milestones: base 40.0, rlvr 60.0, rlr3 90.0" in html
    ids = re.findall(r"\b(?:colour|count|word)-\d+\b", text)
    assert len(set(ids)) == html.count('class="picture-name"') == 4  # each question once
    assert text.count("How many cats? Answer: 3") == 4
    assert html.count('aria-label="rlr3, step 30: right"') == 4
    assert len(pictures(html)) == 4


def test_an_audit_shows_its_figure(tmp_path):
    figures = rlr3.write_audit(tmp_path)
    html, metrics = shown(tmp_path, "audit")
    assert metrics == pytest.approx(figures.metrics())
    assert "Credit that was not deserved" in text_of(html)


@pytest.mark.parametrize(("passed", "says"), [(True, "is the champion now"), (False, "did not pass the gate")])
def test_the_gate_says_what_it_decided_and_why(tmp_path, passed, says):
    decision = {"model_name": "captioner", "version": "3", "passed": passed, "promoted": passed}
    folder.write_json(tmp_path / "promote" / "promotion.json", {**decision, "reasons": ["win rate, low end: 0.6"]})
    html, metrics = shown(tmp_path, "promote")
    assert metrics == {"gate_passed": float(passed), "promoted": float(passed)}
    assert says in text_of(html)
    assert "win rate, low end: 0.6" in text_of(html)


def test_a_report_shows_the_page_itself_unless_it_is_too_large(tmp_path):
    folder.write_json(tmp_path / "report" / "summary.json", {"cost": 2.5, "promoted": True})
    (tmp_path / "report.html").write_text("<h1>the page</h1>")
    html, metrics = shown(tmp_path, "report")
    assert html == "<h1>the page</h1>"
    assert metrics == {"cost": 2.5}
    (tmp_path / "report.html").write_text("x" * 5_000_000)
    html, _ = shown(tmp_path, "report")
    assert "report.html in its folder, has 5.0 MB" in text_of(html)
