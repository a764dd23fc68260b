"""What the Kubeflow UI shows of finished stages: the pages and figures that come of folders as stages leave them."""

import json
import math
import re
from pathlib import Path

import pytest
import synthetic_balcaprl_run as balcaprl
import synthetic_rlr3_run as rlr3
import synthetic_run as folder
from report_page import Page, text_of

from rubricworks.evaluation.caption_prompts import Exam, ExamQuestion
from rubricworks.reports.views import FinishedStage, show_stage
from rubricworks.rubrics import Criterion, Rubric


def shown(run: Path, stage: str, **inputs: str) -> tuple[str, dict[str, float]]:
    """The page's HTML and the figures of a stage; an input is named by the stage that made it."""
    metrics: dict[str, float] = {}
    view = run / "kfp" / stage / "view"
    finished = FinishedStage(stage, run / stage, run, {name: run / maker for name, maker in inputs.items()})
    show_stage(finished, str(view), metrics.__setitem__)
    html = view.read_text()
    assert "could not be made" not in html, text_of(html)[:600]
    return html, metrics


def pictures(html: str) -> list[str]:
    return [attributes["src"] or "" for tag, attributes in Page(html).tags if tag == "img"]


def caption(sample_id: str, captioner: str, text: str) -> dict[str, object]:
    return {
        **{"sample_id": sample_id, "captioner": captioner, "model": captioner, "revision": "", "prompt_version": "1"},
        **{"endpoint": "", "seed": 0, "caption": text, "prompt_tokens": 1, "completion_tokens": 1, "cost": 0.0},
    }


def write_samples(run: Path, stage: str = "prepare", **more: object) -> None:
    splits = {"a": "train", "b": "train", "c": "held_out", "d": "warm_up"}
    rows = [
        {**folder.sample(key, folder.picture("red", 600), split), "references": [f"a red square {key}"], **more}
        for key, split in splits.items()
    ]
    folder.write_table(run / stage, "samples", rows)


def test_samples_are_counted_by_split_and_shown_small_with_their_references(tmp_path):
    write_samples(tmp_path)
    folder.write_table(tmp_path / "prepare" / "rejected", "rejected", [{"source": "x.png", "reason": "not an image"}])
    html, metrics = shown(tmp_path, "prepare")
    assert metrics == {"train": 2, "held_out": 1, "warm_up": 1, "rejected": 1}
    assert "4 samples, 1 could not be used" in text_of(html)
    assert "a red square a" in text_of(html)
    assert "not an image 1 x.png" in text_of(html)
    assert len(pictures(html)) == 3, "the warm-up's samples are no examples of the data"
    assert all(len(one) < 10_000 and one.startswith("data:image/jpeg") for one in pictures(html))


def test_reference_captions_stand_before_and_after(tmp_path):
    write_samples(tmp_path)
    write_samples(tmp_path, "recap", references=["a crimson square"])
    folder.write_table(tmp_path / "recap" / "captions", "captions", [caption("a", "strong", "a crimson square")])
    html, metrics = shown(tmp_path, "recap", samples="prepare")
    assert metrics == {"samples": 4, "rewritten": 1}
    assert "Came with the image a red square a Reference now a crimson square" in text_of(html)
    assert "a red square b" not in html, "b was not written anew"


def test_opened_questions_stand_before_and_after(tmp_path):
    write_samples(tmp_path, "prepare_questions", question="How many?", answer="B", options=["two", "three"])
    write_samples(tmp_path, "open_questions", question="How many, in words?", answer="three")
    said = {"stage": "open_questions", "seconds": 1.0, "multiple_choice": {"opened": 4}}
    folder.write_ledger(tmp_path, [said])
    html, metrics = shown(tmp_path, "open_questions", samples="prepare_questions")
    assert metrics == {"seconds": 1.0, "multiple_choice": 4, "opened": 4}
    assert "Before How many? A. two B. three Answer: B Now How many, in words? Answer: three" in text_of(html)


def test_captions_of_all_captioners_stand_beside_their_image(tmp_path):
    write_samples(tmp_path)
    rows = [caption(key, who, f"{who} sees {key}") for key in "ab" for who in ("teacher-1", "teacher-2")]
    folder.write_table(tmp_path / "caption_committee", "captions", rows)
    html, metrics = shown(tmp_path, "caption_committee", samples="prepare")
    assert metrics == {"captions": 4, "samples": 2}
    assert "teacher-1 teacher-1 sees a teacher-2 teacher-2 sees a" in text_of(html)
    assert "teacher-1 2 3.0" in text_of(html)  # two captions of three words each


def test_rubrics_are_shown_whole_beside_what_the_student_says(tmp_path):
    write_samples(tmp_path)
    folder.write_table(tmp_path / "synthesize_rubrics", "rubrics", [folder.rubric_row("a"), folder.rubric_row("b")])
    folder.write_table(tmp_path / "caption_student", "captions", [caption("a", "student", "a dog")])
    html, metrics = shown(tmp_path, "synthesize_rubrics", samples="prepare", student_captions="caption_student")
    assert metrics == {"rubrics": 2, "criteria": 4, "criteria_each": 2.0, "dropped_criteria": 0}
    assert "What the student says a dog 3 Names the cat passes if a cat is named" in text_of(html)
    assert "3 critical 2 50" in text_of(html)


def test_rubrics_of_a_peer_are_shown_beside_the_captions_below_them_and_none_are_called_none(tmp_path):
    write_samples(tmp_path)
    folder.write_table(tmp_path / "peer_rubrics", "rubrics", [folder.rubric_row("a")])
    folder.write_table(tmp_path / "peer_rubrics" / "caption_student", "captions", [caption("a", "student", "a dog")])
    html, metrics = shown(tmp_path, "peer_rubrics", samples="prepare", model="warm_up")
    assert (metrics["rubrics"], metrics["criteria"]) == (1, 2)
    assert "What the student says a dog 3 Names the cat" in text_of(html)
    folder.write_table(tmp_path / "none" / "peer_rubrics", "rubrics", [])
    html, metrics = shown(tmp_path / "none", "peer_rubrics", samples="prepare", model="warm_up")
    assert metrics["rubrics"] == 0
    assert "0 rubrics with 0 criteria" in text_of(html)


def test_checklists_show_types_references_and_what_was_dropped(tmp_path):
    rlr3.write_whole_run(tmp_path)
    html, metrics = shown(tmp_path, "write_checklists", samples="prepare_questions")
    assert (metrics["rubrics"], metrics["essential"], metrics["dropped_criteria"]) == (7, 7, 8)
    assert "essential: expr_verify(target='3')" in text_of(html)
    assert "gives it away 5" in text_of(html)


def test_exams_show_the_right_option(tmp_path):
    write_samples(tmp_path)
    question = ExamQuestion(question="Which colour?", options=("red", "blue"), answer="A")
    count = ExamQuestion(question="How many?", options=("one", "two"), answer="B")
    row = {
        **{"sample_id": "a", "questions": Exam(questions=(question, count) * 2).model_dump_json(), "writer": "w"},
        **{"prompt_version": "1", "prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0},
    }
    folder.write_table(tmp_path / "write_exams", "exams", [row])
    html, metrics = shown(tmp_path, "write_exams", samples="prepare")
    assert metrics == {"exams": 1, "questions": 4}
    assert "How many? A. one B. two right: B" in text_of(html)


def test_the_warm_up_shows_its_loss_from_the_last_checkpoint(tmp_path):
    for step in (10, 20):
        losses = [{"step": at, "loss": 3.0 - at / 10} for at in range(5, step + 1, 5)]
        state = {"global_step": step, "log_history": [*losses, {"step": step, "train_runtime": 1.0}]}
        folder.write_json(tmp_path / "warm_up" / f"checkpoint-{step}" / "trainer_state.json", state)
    html, metrics = shown(tmp_path, "warm_up")
    assert metrics == {"loss_first": 2.5, "loss": 1.0}
    assert "20 steps, to a loss of 1.00" in text_of(html)
    assert '<path class="measured" d="M' in html


def write_training(run: Path) -> None:
    write_samples(run)
    rows = [
        folder.rollout(
            step, f"said {number} at step {step}", 10 + step, None if number == 3 else number / 4 + step / 20
        )
        for step in range(1, 6)
        for number in range(4)
    ]
    folder.write_table(run / "train_policy" / "rollouts", "rollouts", rows)


def test_training_shows_its_curves_and_a_group_of_the_first_and_of_the_last_step(tmp_path):
    write_training(tmp_path)
    html, metrics = shown(tmp_path, "train_policy", samples="prepare")
    assert metrics == {
        "steps": 5,
        "reward_first": pytest.approx(0.25 + 1 / 20),
        "reward": pytest.approx(0.25 + 5 / 20),
        "unjudged": 0.25,
        "tokens": 15.0,
    }
    said = re.findall(r"said \d at step \d", text_of(html))
    assert said == [f"said {number} at step {step}" for step in (1, 5) for number in (2, 1, 0, 3)], "the best first"
    assert "could not be judged said 3" in text_of(html)


def test_an_alarm_is_said_first_and_marked_in_the_curve(tmp_path):
    write_training(tmp_path)
    folder.write_json(tmp_path / "train_policy" / "alarm.json", {"step": 4, "reasons": ["it lists objects"]})
    html, metrics = shown(tmp_path, "train_policy", samples="prepare")
    assert metrics["alarm_step"] == 4
    assert "Hacking alarm, step 4: it lists objects" in text_of(html)
    assert 'class="mark-line"' in html


def test_balanced_training_shows_each_reward(tmp_path):
    balcaprl.write_whole_run(tmp_path)
    html, metrics = shown(tmp_path, "train_balcaprl", samples="prepare")
    assert {"precision_reward", "recall_reward", "linguistic_reward"} <= metrics.keys()
    assert all(f">{name}</span>" in html for name in ("Precision", "Recall", "Linguistic"))


def test_the_genrm_shows_its_table_and_its_figures(tmp_path):
    reports = rlr3.write_genrm(tmp_path)
    html, metrics = shown(tmp_path, "train_genrm")
    assert metrics["rlvr/sample_level"] == pytest.approx(reports["rlvr"].sample_level.value) == pytest.approx(0.9)
    assert metrics["base/sample_level"] == pytest.approx(0.4)
    assert "90.0 % are right" in text_of(html)


def test_labels_stand_beside_the_response_that_they_judge(tmp_path):
    rlr3.write_questions(tmp_path)
    rlr3.write_genrm(tmp_path)
    row = {
        **{"sample_id": "count-1", "split": "train", "question": "How many cats?", "response": "there are 3"},
        **{"rubric": rlr3.RUBRIC.model_dump_json(), "label": rlr3.LABEL.model_dump_json(), "task": "count"},
        "loses_credit": False,
    }
    folder.write_table(tmp_path / "genrm_data", "genrm_data", [row])
    html, metrics = shown(tmp_path, "genrm_data", samples="prepare_questions")
    assert metrics == {"train": 12, "test": 10}
    assert "Response there are 3" in text_of(html)
    assert f"label {rlr3.CALL}" in text_of(html)


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


def test_an_evaluation_shows_captions_before_and_after_with_the_criteria_that_changed(tmp_path):
    folder.write_small_run(tmp_path)
    html, metrics = shown(tmp_path, "evaluate", samples="prepare", rubrics="synthesize_rubrics")
    assert metrics["greedy/win_rate"] == pytest.approx(0.75)
    assert metrics["greedy/policy/rubric_reward"] == pytest.approx(0.8)
    assert "Base model a black thing reward 0.40" in text_of(html)
    assert "Trained policy preferred a black cat reward 1.00" in text_of(html)
    assert html.count('<li class="gained">') == 2  # the cat is named now, on both images
    assert len(pictures(html)) == 2


def test_scored_captions_show_the_scores_and_the_claims(tmp_path):
    summary = balcaprl.write_whole_run(tmp_path)
    html, metrics = shown(tmp_path, "evaluate_captions", samples="prepare")
    assert metrics == pytest.approx(summary.metrics())
    assert "claim 0: the caption of policy" in text_of(html)
    assert len(pictures(html)) == 4


def test_answers_show_accuracy_over_milestones_and_who_is_right(tmp_path):
    rlr3.write_whole_run(tmp_path)
    html, metrics = shown(tmp_path, "evaluate_answers", samples="prepare_questions")
    assert metrics == {
        "base/macro": pytest.approx(0.4),
        "rlr3/macro": pytest.approx(0.9),
        "rlvr/macro": pytest.approx(0.6),
    }
    assert "Macro average 40.0" in text_of(html)
    assert "How many cats?" in text_of(html)


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


def test_a_stage_without_a_view_of_its_own_shows_what_it_wrote(tmp_path):
    checks = [{"name": "storage", "problem": None, "detail": "can be written"}]
    folder.write_json(tmp_path / "preflight" / "checks.json", checks)
    folder.write_json(tmp_path / "preflight" / "summary.json", {"outcome": "all well", "inner": {"seconds": 2}})
    folder.write_json(tmp_path / "preflight" / "done.json", {"digest": "0123"})
    folder.write_ledger(tmp_path, [{"stage": "preflight", "seconds": 2.0, "checks": 1, "missing": 0}])
    html, metrics = shown(tmp_path, "preflight")
    assert metrics == {"seconds": 2.0, "checks": 1, "missing": 0}
    assert "Name Problem Detail storage – can be written" in text_of(html)  # noqa: RUF001
    assert "inner.seconds 2" in text_of(html)
    assert '<p class="headline open">all well</p>' in html
    assert "0123" not in html


def test_calls_and_dead_letters_of_the_stage_stand_below(tmp_path):
    write_training(tmp_path)
    call = {"purpose": "judge", "model": "judge-x", "calls": 10, "cached": 4, "prompt_tokens": 70, "cost": 0.25}
    other = {"purpose": "caption", "model": "teacher-x", "calls": 3}
    entries = [
        {"stage": "train_policy", "seconds": 1.0, "calls": [call]},
        {"stage": "caption_committee", "calls": [other]},
    ]
    folder.write_ledger(tmp_path, entries)
    letters = [folder.letter("train_policy", "not JSON")] * 2
    folder.write_table(tmp_path / "train_policy" / "dead_letters", "dead_letters", letters)
    html, metrics = shown(tmp_path, "train_policy", samples="prepare")
    assert (metrics["calls"], metrics["dollars"]) == (10, 0.25)
    assert "judge-x judge 10 4 0 70 0.25" in text_of(html)
    assert "teacher-x" not in html
    assert "judge malformed 2 not JSON" in text_of(html)


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}"])
def test_what_models_write_is_text_never_markup(tmp_path, hostile):
    folder.write_small_run(tmp_path, caption=hostile)
    rubric = Rubric(criteria=(Criterion(criterion=hostile, evaluation_rule=hostile, weight=3),))
    folder.write_table(tmp_path / "write_checklists", "rubrics", [folder.rubric_row("a", rubric)])
    for stage in ("evaluate", "write_checklists"):
        html, _ = shown(tmp_path, stage, samples="prepare")
        assert hostile in "".join(Page(html).words)
        tags = Page(html).tags
        assert not [tag for tag, attributes in tags if tag == "script" or "onerror" in attributes]
        assert "default-src 'none'" in html


def test_figures_that_are_no_json_numbers_are_not_told(tmp_path):
    (tmp_path / "some_stage").mkdir()
    line = {"stage": "some_stage", "seconds": 1.0, "loss": math.nan, "rate": math.inf, "done": True, "name": "x"}
    (tmp_path / "ledger.jsonl").write_text(json.dumps(line) + "\n")
    _, metrics = shown(tmp_path, "some_stage")
    assert metrics == {"seconds": 1.0}


def test_a_view_that_cannot_be_made_says_so_and_spoils_nothing(tmp_path):
    folder.write_json(tmp_path / "promote" / "promotion.json", {"passed": "perhaps"})
    metrics: dict[str, float] = {}
    view = tmp_path / "view"
    show_stage(FinishedStage("promote", tmp_path / "promote", tmp_path, {}), str(view), metrics.__setitem__)
    assert "promotion.json: passed" in text_of(view.read_text())
    assert "the stage itself is done" in text_of(view.read_text())
    assert metrics == {}


def test_a_place_that_cannot_be_written_spoils_nothing(tmp_path):
    folder.write_json(tmp_path / "promote" / "promotion.json", {})
    (tmp_path / "file").touch()
    metrics: dict[str, float] = {}
    finished = FinishedStage("promote", tmp_path / "promote", tmp_path, {})
    show_stage(finished, str(tmp_path / "file" / "view"), metrics.__setitem__)
    assert metrics["promoted"] == 0.0


def test_a_view_stays_small_whatever_models_write(tmp_path, monkeypatch):
    write_samples(tmp_path)
    rows = [caption(key, f"teacher-{number}", "word " * 100_000) for key in "ab" for number in range(3)]
    folder.write_table(tmp_path / "caption_committee", "captions", rows)
    html, _ = shown(tmp_path, "caption_committee", samples="prepare")
    assert len(html) < 100_000
    assert "more characters)" in html
    monkeypatch.setattr("rubricworks.reports.views.show.MAX_BYTES", 20_000)
    html, _ = shown(tmp_path, "caption_committee", samples="prepare")
    assert "2 cards are left out" in text_of(html)
    assert not pictures(html)


def test_a_simulation_is_called_one(tmp_path):
    write_training(tmp_path)
    assert "Simulated." not in text_of(shown(tmp_path, "train_policy", samples="prepare")[0])
    folder.write_recipe(tmp_path, {"world": {"scenes": 10}})
    assert "Simulated." in text_of(shown(tmp_path, "train_policy", samples="prepare")[0])
