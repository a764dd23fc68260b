"""Visual questions beside the captions: each is of its picture's split."""

import json
from pathlib import Path

import pytest
from coloured_squares import COLOURS, PLACES, square

from rubricworks.data.question_text import Templates
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.runtime.launch import launch
from rubricworks.stages.data.visual_questions import VisualQuestions, questions_about, samples_by_digest

PLAIN = Templates(open="{question}", choice="{question}")


@pytest.fixture
def images(tmp_path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    lines, questions = [], []
    for place in PLACES:
        for colour in COLOURS:
            name = f"{place}-{colour}.png"
            (folder / name).write_bytes(square(place, colour))
            lines.append({"file_name": name, "text": f"at {place} a {colour} square ."})
            answer = f"\\boxed{{{colour}}}"
            questions.append({"image": name, "question": "which colour ?", "answer": colour, "references": [answer]})
    (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "questions.jsonl").write_text(
        "\n".join(map(json.dumps, [*questions, questions[0], {"image": "gone.png"}]))
    )
    return folder


@pytest.fixture
def samples(images, tmp_path) -> str:
    config = {"source": str(images), "held_out": 4, "warm_up": 3, "prompt": "describe"}
    return launch("prepare", json.dumps(config), str(tmp_path / "run"), {})


def task(images: Path) -> VisualQuestions:
    return VisualQuestions(source=str(images / "questions.jsonl"), templates=PLAIN)


def test_each_question_is_of_its_pictures_split(images, samples):
    held_out, rest = samples_by_digest(samples, "held_out"), samples_by_digest(samples, "warm_up", "train")
    assert (len(held_out), len(rest)) == (4, 8)
    of_held_out = list(questions_about(held_out, task(images), "questions"))
    of_rest = list(questions_about(rest, task(images), "questions"))
    assert {digest for digest, _ in of_held_out} == held_out.keys()
    assert {digest for digest, _ in of_rest} == rest.keys()
    assert len(of_held_out) + len(of_rest) == 13  # one stands twice, and one has no picture
    captions = {row["image_digest"]: row["references"][0] for row in read_rows(samples)}
    assert all(str(question.answer) in captions[digest] for digest, question in of_held_out)


def test_questions_about_other_pictures_are_no_questions(images):
    with pytest.raises(UserError, match=r"^warm_up\.questions: .*questions\.jsonl asks nothing about the pictures"):
        list(questions_about({"another"}, task(images), "warm_up.questions"))


def test_the_student_warms_up_on_both_and_never_on_what_is_held_out(images, samples, tmp_path):
    config = {
        "student": "tiny",
        "tiny": {"hidden": 32, "layers": 1, "heads": 2, "intermediate": 64, "vision_hidden": 16, "vision_heads": 2}
        | {"patch": 8, "merge": 2, "image_side": 32},
        "sft": {"steps": 1, "batch_size": 4},
        "questions": {"source": str(images / "questions.jsonl"), "templates": PLAIN.model_dump()},
    }
    launch("warm_up", json.dumps(config), str(tmp_path / "run"), {"samples": samples})
    ledger = [json.loads(line) for line in (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()]
    doubled = questions_about(samples_by_digest(samples, "warm_up", "train"), task(images), "questions")
    assert ledger[-1]["examples"] == 8 + len(list(doubled))
    assert "which" in (tmp_path / "run" / "warm_up" / "model" / "tokenizer.json").read_text()
