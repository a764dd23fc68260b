"""Exams written over HTTP: the table, which samples get one, what a failure leaves, and a kill half way."""

import json
from pathlib import Path
from typing import Any

import pytest
from asked_stages import count_requests, digest_of, prepare, tables
from scripted_server import Said, fail, say

from rubricworks.data.tables import read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.evaluation.scorers.caption_prompts import EXAM_PROMPT_VERSION, Exam
from rubricworks.evaluation.scorers.caption_qa import read_exams
from rubricworks.runtime.launch import launch


def exam_about(body: dict[str, Any]) -> dict[str, Any]:
    """Another one for every image."""
    names = [f"Question {number} of {digest_of(body)}?" for number in range(4)]
    return {"questions": [{"question": name, "options": ["red", "blue"], "answer": "B"} for name in names]}


def write_exam(_: int, body: dict[str, Any]) -> Said:
    answer = say(json.dumps(exam_about(body)), tokens=(700, 90))
    answer.delay = 0.02
    return answer


def write(run: Path, samples: str, url: str, **config: Any) -> Path:
    writer = {"url": url, "model": "exam-writer", "prices": [1.0, 2.0]}
    return Path(launch("write_exams", json.dumps({"writer": writer, **config}), str(run), {"samples": samples}))


def test_held_out_samples_get_an_exam_each_from_their_image(serve, tmp_path):
    samples = prepare(tmp_path, 6)
    server = serve(write_exam)
    out = write(tmp_path / "run", samples, server.url)
    rows = list(read_rows(out))
    assert [row["sample_id"] for row in rows] == [sample.sample_id for sample in read_samples(samples, "held_out")]
    assert len(rows) == len(server.chats) == 2
    assert all("data:image/png;base64" in chat.text for chat in server.chats)
    assert {row["questions"] for row in rows} == {
        Exam.model_validate(exam_about(chat.body)).model_dump_json() for chat in server.chats
    }
    assert {(row["writer"], row["prompt_version"], row["prompt_tokens"]) for row in rows} == {
        ("exam-writer", EXAM_PROMPT_VERSION, 700)
    }
    assert rows[0]["cost"] == pytest.approx((700 * 1 + 90 * 2) / 1e6)
    assert list(read_exams(out)) == [row["sample_id"] for row in rows]


def test_training_samples_get_exams_when_asked_for(serve, tmp_path):
    samples = prepare(tmp_path, 6)
    out = write(tmp_path / "run", samples, serve(write_exam).url, splits=["train", "held_out"])
    assert {row["sample_id"] for row in read_rows(out)} == {
        sample.sample_id for sample in read_samples(samples, "train", "held_out")
    }


def test_exam_that_stays_unfit_is_a_dead_letter_and_costs_no_other_its_own(serve, tmp_path):
    samples = prepare(tmp_path, 6)
    failures = {}

    def script(number: int, body: dict[str, Any]) -> Said:
        broken = failures.setdefault(str(body["messages"][1]), not failures)
        exam = exam_about(body)
        exam["questions"][0]["answer"] = "C" if broken else "A"
        return say(json.dumps(exam))

    out = write(tmp_path / "run", samples, serve(script).url, splits=["train", "held_out"])
    letters = list(read_rows(out / "dead_letters"))
    assert [(letter["purpose"], letter["reason"]) for letter in letters] == [("exam by exam-writer", "malformed")]
    assert "there are 2 options" in letters[0]["message"]
    everyone = {sample.sample_id for sample in read_samples(samples, "train", "held_out")}
    assert {row["sample_id"] for row in read_rows(out)} == everyone - {letters[0]["sample_id"]}


def test_when_no_exam_came_it_says_why_and_begins_anew_the_next_time(serve, tmp_path):
    samples = prepare(tmp_path, 4)
    answers = [fail(400, "no")]
    server = serve(lambda number, body: answers[0] or write_exam(number, body))
    with pytest.raises(UserError, match=r"no exams came of 2 samples: exam by exam-writer"):
        write(tmp_path / "run", samples, server.url)
    answers[0] = None
    assert len(list(read_rows(write(tmp_path / "run", samples, server.url)))) == 2


def test_the_same_is_not_asked_twice_and_a_second_run_writes_the_same_bytes(serve, tmp_path):
    samples = prepare(tmp_path, 6)
    server = serve(write_exam)
    first = write(tmp_path / "one", samples, server.url)
    second = write(tmp_path / "two", samples, server.url)
    assert tables(first) == tables(second)
    assert write(tmp_path / "two", samples, server.url) == second
    assert set(count_requests(server).values()) == {2}
