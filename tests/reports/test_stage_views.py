"""Kubeflow UI views of data stages: samples, captions, rubrics, questions."""

import synthetic_rlr3_run as rlr3
import synthetic_run as folder
from report_page import text_of
from shown_stages import caption, pictures, shown, write_samples

from rubricworks.evaluation.scorers.caption_prompts import Exam, ExamQuestion


def test_samples_are_counted_by_split_and_shown_small_with_their_references(tmp_path):
    write_samples(tmp_path)
    folder.write_table(tmp_path / "prepare" / "rejected", "rejected", [{"source": "x.png", "reason": "not an image"}])
    html, metrics = shown(tmp_path, "prepare")
    assert metrics == {"train": 2, "held_out": 1, "warm_up": 1, "rejected": 1}
    assert "4 samples, 1 could not be used" in text_of(html)
    assert "a red square a" in text_of(html)
    assert "not an image 1 x.png" in text_of(html)
    assert len(pictures(html)) == 3, "the warm-up's samples are no examples of the data"
    assert all(len(picture) < 10_000 and picture.startswith("data:image/jpeg") for picture in pictures(html))


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
    figures = {"stage": "open_questions", "seconds": 1.0, "multiple_choice": {"opened": 4}}
    folder.write_ledger(tmp_path, [figures])
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


def test_peer_rubrics_are_shown_beside_their_captions(tmp_path):
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
