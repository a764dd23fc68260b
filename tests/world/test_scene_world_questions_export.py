"""The world's question file: shares as stated, answers right, repeats that de-duplication finds; and who opens them."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rubricworks.data.question_text import normalise_question
from rubricworks.data.questions import question_entries
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, ChatError
from rubricworks.runtime.launch import launch
from rubricworks.world.chat import ChatRequest
from rubricworks.world.models.question_models import ERROR_RATE, answers_of, question_rewriter_reply
from rubricworks.world.scene.answers import read_response
from rubricworks.world.scene.export import export_scenes
from rubricworks.world.scene.questions import LETTERS, TASKS, Query, answer_query, parse_question
from rubricworks.world.scene.questions_export import (
    CHOICE_SHARE,
    DUPLICATE_SHARE,
    NEEDS_OPTIONS,
    NEEDS_OPTIONS_SHARE,
    export_questions,
    world_questions,
)
from rubricworks.world.scene.scene import Scene, SceneObject, generate_scenes
from rubricworks.world.scene.scene_index import read_scene_index

SEED, COUNT, EACH = 3, 300, 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    export_scenes(folder, seed=SEED, count=COUNT)
    export_questions(folder, seed=SEED, count=COUNT, per_scene=EACH)
    return folder


@pytest.fixture(scope="module")
def rows(folder) -> list[dict]:
    return pq.read_table(folder / "questions" / "questions.parquet").to_pylist()


def text_of(row: dict) -> str:
    """Text of a row's option letter, or its answer."""
    return row["options"][LETTERS.index(row["answer"])] if row["options"] else row["answer"]


def first_rows(rows: list[dict]) -> list[dict]:
    """Without those that repeat another."""
    calls: dict[tuple, dict] = {}
    for row in rows:
        calls.setdefault((row["image"], normalise_question(row["question"]), tuple(row["options"] or ())), row)
    return list(calls.values())


def near(share: float, expected: float, count: int) -> bool:
    """Within four standard deviations of a binomial share."""
    return abs(share - expected) <= 4 * (expected * (1 - expected) / count) ** 0.5


def test_images_are_those_of_the_exported_scenes_and_answers_are_right_there(folder, rows):
    book = read_scene_index(folder)
    for row in first_rows(rows):
        _, scene = book.find(row["image"])
        query = parse_question(row["question"])
        assert query.task == row["task"]
        assert text_of(row) == answer_query(query, scene)
        assert answers_of(query, scene) == {text_of(row)}


def test_every_scene_has_its_number_of_different_questions(rows):
    per_image = Counter(row["image"] for row in first_rows(rows))
    assert len(per_image) == COUNT
    assert set(per_image.values()) == {EACH}


def test_tasks_are_as_even_as_the_scenes_allow():
    for each in (1, 2, 4):
        counts = Counter(row.task for _, some in world_questions(SEED, COUNT, each) for row in some)
        worded = sum(scene.word is not None for scene in generate_scenes(SEED, COUNT))
        fair = each * COUNT / len(TASKS)
        # A word can be asked for once in a scene that has one.
        assert counts["word"] >= 0.95 * min(fair, worded)
        others = [counts[task] for task in TASKS if task != "word"]
        assert max(others) <= 1.1 * min(others)


@pytest.mark.slow
def test_shares_are_as_stated():
    pairs = list(_pairs(1, 2_000, 3))
    rows = [row for _, row in pairs]
    kinds = [row for row in rows if row.task in ("colour", "relation")]
    choice = [row for row in kinds if row.options]
    assert {row.task for row in rows if row.options} == {"colour", "relation"}
    assert near(len(choice) / len(kinds), CHOICE_SHARE, len(kinds))
    needing = sum(normalise_question(row.question).startswith(NEEDS_OPTIONS) for row in choice)
    assert near(needing / len(choice), NEEDS_OPTIONS_SHARE, len(choice))
    assert 0.02 <= needing / len(rows) <= 0.03
    keys = Counter((row.question.casefold().replace(" ", ""), row.options, scene) for scene, row in pairs)
    repeats = len(rows) - len(keys)
    assert near(repeats / len(keys), DUPLICATE_SHARE, len(keys))


def _pairs(seed: int, count: int, each: int):
    return ((scene, row) for scene, some in world_questions(seed, count, each) for row in some)


def test_right_options_stand_at_every_letter(rows):
    letters = Counter(row["answer"] for row in rows if row["options"] and len(row["options"]) == 4)
    assert set(letters) == set("ABCD")
    assert min(letters.values()) >= letters.total() / 10


def test_answers_end_in_a_box_most_of_them_guessed_and_the_worked_ones_mostly_right():
    worked: dict[str, list[bool]] = {task: [] for task in TASKS}
    guessed: dict[str, list[bool]] = {task: [] for task in TASKS}
    for _, row in _pairs(1, 1_000, 3):
        (reference,) = row.references
        parts = read_response(reference)
        assert parts.boxed
        if row.options:
            assert parts.boxed in LETTERS[: len(row.options)]
        looked = not reference.startswith("\\boxed")
        (worked if looked else guessed)[row.task].append(parts.boxed == row.answer)
    for task in TASKS:
        assert 0.55 <= sum(worked[task]) / len(worked[task]) <= 0.95, task
        assert sum(guessed[task]) / len(guessed[task]) <= 0.65, task
    share = sum(map(len, guessed.values())) / sum(len(rows[task]) for rows in (worked, guessed) for task in TASKS)
    assert 0.55 <= share <= 0.68


@pytest.mark.slow
def test_same_call_writes_the_same_bytes_and_more_scenes_begin_with_the_same_rows(folder, rows, tmp_path):
    place = export_questions(tmp_path, seed=SEED, count=COUNT, per_scene=EACH) / "questions.parquet"
    assert place.read_bytes() == (folder / "questions" / "questions.parquet").read_bytes()
    export_questions(tmp_path, seed=SEED, count=COUNT + 20, per_scene=EACH)
    assert pq.read_table(place).to_pylist()[: len(rows)] == rows
    export_questions(tmp_path, seed=SEED + 1, count=COUNT, per_scene=EACH)
    assert pq.read_table(place).to_pylist() != rows


def test_file_is_read_by_its_column_names_and_its_repeats_are_found_by_preparation(folder, rows, tmp_path):
    source = str(folder / "questions")
    assert [question_entry.question for question_entry in question_entries(source)] == [row["question"] for row in rows]
    out = Path(launch("prepare_questions", json.dumps({"source": source, "held_out": 50}), str(tmp_path), {}))
    remaining = list(read_rows(out, columns=["question"]))
    assert len(remaining) == len(first_rows(rows)) == COUNT * EACH
    assert len(rows) - len(remaining) == len(list(read_rows(out / "rejected"))) > 0
    # The first spelling is kept: the one that reads back.
    assert all(parse_question(row["question"]) for row in remaining)


def test_bad_calls_and_places_are_user_errors(tmp_path):
    with pytest.raises(UserError, match="at least 1"):
        export_questions(tmp_path, seed=1, count=2, per_scene=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write questions"):
        export_questions(tmp_path / "file", seed=1, count=2, per_scene=1)


@pytest.mark.slow
def test_command_exports_both_and_by_default_scenes_alone(tmp_path):
    for questions, exists in ((0, False), (2, True)):
        command = [sys.executable, "-m", "rubricworks.cli", "world", "export", str(tmp_path), "--scenes", "5"]
        done = subprocess.run(
            [*command, "--questions", str(questions)], capture_output=True, text=True, timeout=600, check=True
        )
        assert ("questions about them" in done.stdout) == exists
        assert (tmp_path / "questions" / "questions.parquet").exists() == exists


@pytest.fixture(scope="module")
def url(folder):
    command = [sys.executable, "-m", "rubricworks.cli", "world", "serve", str(folder), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    yield server.stdout.readline().strip()
    server.terminate()
    assert server.wait(timeout=300) == 0
    server.stdout.close()


def test_opener_opens_what_stands_alone_and_errs_as_rarely_as_stated(folder, rows, url, tmp_path):
    config = {"source": str(folder / "questions"), "held_out": 50}
    samples = launch("prepare_questions", json.dumps(config), str(tmp_path), {})
    config = {"opener": {"url": f"{url}/v1", "model": "question-opener"}}
    out = Path(launch("open_questions", json.dumps(config), str(tmp_path), {"samples": samples}))
    before = {row["sample_id"]: row for row in read_rows(samples)}
    counts = Counter()
    for row in read_rows(out):
        old = before[row["sample_id"]]
        if old["options"]:
            alone = not old["question"].startswith(NEEDS_OPTIONS)
            counts[alone, row["options"] is None] += 1
            if row["options"] is None:
                assert row["answer"] == text_of(old)
                assert row["question"] == old["question"].split(" A ")[0].removeprefix(NEEDS_OPTIONS).strip()
    right, wrong = counts[True, True] + counts[False, False], counts[True, False] + counts[False, True]
    # Of a question that stands alone both checks must come out right.
    assert 0 < counts[True, True] > 4 * counts[True, False]
    assert near(wrong / (right + wrong), 2 * ERROR_RATE, right + wrong)
    assert list(read_rows(out / "dead_letters")) == []


def test_opener_needs_an_image(url):
    async def ask() -> None:
        async with ChatClient(f"{url}/v1", "question-opener") as client:
            await client.chat([{"role": "user", "content": "<question>\nx\n</question>"}])

    with pytest.raises(ChatError, match="looks at an image"):
        asyncio.run(ask())


def test_opener_says_which_check_fails():
    scene = next(generate_scenes(SEED, 1))
    first = scene.objects[0]
    question = f"what colour is the object at {first.cell} ?"
    replies = {
        (requests, right): Counter(
            (answer["well_posed"], answer["unique_answer"])
            for seed in range(60)
            for answer in [json.loads(question_rewriter_reply(_request(requests, right), scene, seed))]
        ).most_common(1)[0][0]
        for requests, right in (
            (question, first.colour),
            (question, "mauve"),
            (f"{NEEDS_OPTIONS} {question}", first.colour),
            ("what is it ?", first.colour),
        )
    }
    assert list(replies.values()) == [(True, True), (True, False), (False, True), (False, False)]


def test_relation_that_two_pairs_of_objects_answer_differently_has_no_one_answer():
    def star(cell: str, colour: str) -> SceneObject:
        return SceneObject(cell=cell, size="big", colour=colour, shape="star")

    scene = Scene(objects=(star("left", "red"), star("center", "blue"), star("right", "red")))
    query = Query("relation", "red", "star", "blue", "star", "side")
    assert answers_of(query, scene) == {"left", "right"}


def _request(question: str, right: str) -> ChatRequest:
    prompt = f"<question>\n{question}\n</question>\n\n<right_option>\n{right}\n</right_option>"
    return ChatRequest("question-opener", prompt, None, 1, len(prompt), 0, None)
