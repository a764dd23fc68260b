"""Multiple choice to open questions, against a scripted server that sees what is asked."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from asked_questions import COLOURS, prepare_questions
from scripted_server import Said, fail, say

from rubricworks.data.tables import read_rows
from rubricworks.methods.rlr3.stages.open_questions import option_in_box
from rubricworks.runtime.launch import launch


def text_of(body: dict[str, Any]) -> str:
    return next(part["text"] for part in body["messages"][-1]["content"] if part["type"] == "text")


def right_option(body: dict[str, Any]) -> str:
    return text_of(body).split("<right_option>\n")[1].split("\n</right_option>")[0]


def opening(body: dict[str, Any], **fields: object) -> Said:
    answer = {"reason": "r", "well_posed": True, "unique_answer": True, "question": "its colour ?"}
    return say(json.dumps(answer | {"answer": right_option(body)} | fields))


def open_questions(run: Path, samples: str, url: str | None, **config: object) -> Path:
    if url:
        config["opener"] = {"url": url, "model": "m"}
    return Path(launch("open_questions", json.dumps(config), str(run), {"samples": samples}))


@pytest.fixture
def samples(tmp_path) -> str:
    return prepare_questions(tmp_path / "questions", pictures=6)


def test_question_that_passes_both_checks_becomes_open(tmp_path, samples, serve):
    server = serve(lambda _, body: opening(body))
    out = open_questions(tmp_path / "run", samples, server.url, templates={"open": "Q: {question}"})
    before = {row["sample_id"]: row for row in read_rows(samples)}
    after = list(read_rows(out))
    assert [row["sample_id"] for row in after] == list(before)
    for row in after:
        old = before[row["sample_id"]]
        if not old["options"]:
            assert row == old
            continue
        right = old["options"]["ABCD".index(old["answer"])]
        changed = {name: value for name, value in row.items() if value != old[name]}
        assert changed == {
            "question": "its colour ?",
            "prompt": "Q: its colour ?",
            "answer": right,
            "options": None,
            "references": [f"it is at left . \\boxed{{ {right} }}"],
        }


def test_only_multiple_choice_is_asked_about_with_image_and_options(tmp_path, samples, serve):
    server = serve(lambda _, body: opening(body))
    open_questions(tmp_path / "run", samples, server.url)
    assert len(server.chats) == 6
    images = set()
    for chat in server.chats:
        image, _ = chat.body["messages"][-1]["content"]
        images.add(image["image_url"]["url"])
        assert "<question>\nwhat colour is it ?\n</question>" in text_of(chat.body)
        assert "<options>\nA red B green C blue D yellow\n</options>" in text_of(chat.body)
    assert len(images) == 6
    assert Counter(right_option(chat.body) for chat in server.chats) == Counter([*COLOURS, "red", "green"])


@pytest.mark.parametrize("failed", ["well_posed", "unique_answer"])
def test_question_that_fails_one_check_stays_as_it_is(tmp_path, samples, serve, failed):
    server = serve(lambda _, body: opening(body, **{failed: False}))
    out = open_questions(tmp_path / "run", samples, server.url)
    assert list(read_rows(out)) == list(read_rows(samples))
    ledger = json.loads((tmp_path / "run" / "ledger.jsonl").read_text().splitlines()[-1])
    assert ledger["multiple_choice"] == {"not well-posed" if failed == "well_posed" else "not unique": 6}
    assert list(read_rows(out / "dead_letters")) == []


@pytest.mark.parametrize(
    ("fields", "result"),
    [
        ({"answer": "maroon"}, "is not the right option's text"),
        ({"question": "which of these is it ?"}, "speaks of options"),
        ({"question": "Which one of the following options is it?"}, "speaks of options"),
        ({"question": " "}, "is blank"),
    ],
)
def test_opening_that_contradicts_itself_is_asked_to_be_mended(tmp_path, samples, serve, fields, result):
    def script(_: int, body: dict[str, Any]) -> Said:
        mended = any(result in str(message["content"]) for message in body["messages"])
        return opening({"messages": body["messages"][:2]}, **({} if mended else fields))

    server = serve(script)
    out = open_questions(tmp_path / "run", samples, server.url)
    assert len(server.chats) == 12
    assert {row["options"] is None for row in read_rows(out)} == {True}


def test_area_of_the_following_figure_is_an_open_question(tmp_path, samples, serve):
    server = serve(lambda _, body: opening(body, question="What is the area of the following figure?"))
    out = open_questions(tmp_path / "run", samples, server.url)
    assert len(server.chats) == 6
    assert all(row["options"] is None for row in read_rows(out))


@pytest.mark.usefixtures("quick_retries")
def test_answer_that_cannot_be_used_leaves_a_dead_letter_and_the_sample_as_it_was(tmp_path, samples, serve):
    def script(_: int, body: dict[str, Any]) -> Said:
        if right_option({"messages": body["messages"][:2]}) == "red":
            return say("I would rather not use JSON.")
        return fail(400, "too large") if right_option(body) == "green" else opening(body)

    out = open_questions(tmp_path / "run", samples, serve(script).url)
    letters = list(read_rows(out / "dead_letters"))
    assert Counter(row["reason"] for row in letters) == {"malformed": 2, "transport": 2}
    assert {(row["stage"], row["purpose"]) for row in letters} == {("open_questions", "opening by m")}
    failed = {row["sample_id"] for row in letters}
    before = {row["sample_id"]: row for row in read_rows(samples)}
    for row in read_rows(out):
        assert (row == before[row["sample_id"]]) == (row["sample_id"] in failed or row["task"] == "count")


def test_without_an_opener_everything_passes_through(tmp_path, samples):
    out = open_questions(tmp_path / "run", samples, None)
    assert list(read_rows(out)) == list(read_rows(samples))


@pytest.mark.parametrize(
    ("text", "opened"),
    [
        (r"so \boxed{B}", r"so \boxed{green}"),
        (r"not \boxed{A} but \boxed{ C } .", r"not \boxed{A} but \boxed{ blue } ."),
        (r"\boxed{3}", r"\boxed{3}"),
        (r"\boxed{E}", r"\boxed{E}"),
        ("B", "B"),
        (r"\boxed{ }", r"\boxed{ }"),
    ],
)
def test_letter_in_the_last_box_becomes_its_option(text, opened):
    assert option_in_box(text, COLOURS) == opened
