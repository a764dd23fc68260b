"""The stage from a table of questions to a table of rubrics, through `launch`, against a scripted server."""

import asyncio
import json
from io import BytesIO
from pathlib import Path

import pytest
from asked_stages import tables
from PIL import Image
from pydantic import ValidationError
from scripted_checklists import ANSWER, STEP, THREE, WRONG, checklist, models, scoring
from scripted_server import fail

from rubricworks.data.tables import build_table, read_rows
from rubricworks.errors import UserError
from rubricworks.methods.rlr3.stages.write_checklists import Config
from rubricworks.rubrics import Rubric
from rubricworks.runtime.launch import launch
from rubricworks.storage import write_atomic
from rubricworks.synthesis import CHECKLIST_PROMPT_VERSION

SPLITS = ("train", "train", "held_out", "warm_up")


@pytest.fixture
def samples(tmp_path) -> str:
    """A finished table of four questions, one for the warm-up alone."""
    out = tmp_path / "prepared" / "prepare_questions"
    out.mkdir(parents=True)
    rows = []
    for number, split in enumerate(SPLITS):
        content = BytesIO()
        Image.new("RGB", (8, 8), (20 * number, 80, 120)).save(content, "PNG")
        rows.append(
            {
                "sample_id": f"s{number}",
                "split": split,
                "image": content.getvalue(),
                "image_digest": str(number),
                "prompt": "p",
                "references": [],
                "source": "here",
                "question": f"how many birds are in picture {number} ?",
                "answer": "3",
                "task": "count",
            }
        )

    async def make(chunk):
        return chunk

    manifest = asyncio.run(build_table(out, "samples", rows, make, made_by={}, shard_size=4))
    write_atomic(out / "done.json", json.dumps({"digest": manifest.digest}).encode())
    return str(out)


def config(server, teachers=THREE, merger="merger", **more):
    def endpoint(model):
        return {"url": server.url, "model": model}

    parts = {"teachers": [endpoint(model) for model in teachers]}
    parts |= {name: endpoint(more.pop(name)) for name in ("examiner",) if name in more}
    return parts | ({"merger": endpoint(merger)} if merger else {}) | more


def stage(run, settings, samples):
    return Path(launch("write_checklists", json.dumps(settings), str(run), {"samples": samples}))


def figures(run):
    return json.loads((run / "ledger.jsonl").read_text().splitlines()[-1])


def test_every_question_of_train_and_held_out_gets_a_rubric(tmp_path, samples, serve):
    heavy = {**STEP, "weight": 5}
    answers = dict.fromkeys(THREE, checklist(ANSWER, additional=[heavy])) | {
        "merger": checklist(ANSWER, additional=[STEP])
    }
    out = stage(tmp_path / "run", config(serve(models(answers))), samples)
    rows = list(read_rows(out))
    assert [row["sample_id"] for row in rows] == ["s0", "s1", "s2"]
    assert {(row["writer"], row["coverage"], row["candidates"], row["prompt_version"]) for row in rows} == {
        ("one + two + three", "checklist", 3, CHECKLIST_PROMPT_VERSION)
    }
    assert {(row["prompt_tokens"], row["completion_tokens"]) for row in rows} == {(400, 40)}
    rubric = Rubric.model_validate_json(rows[0]["rubric"])
    assert [(criterion.criterion, criterion.essential, criterion.weight) for criterion in rubric.criteria] == [
        (ANSWER["criterion"], True, 3),
        (STEP["criterion"], False, 1),
    ]
    statistics = figures(tmp_path / "run")
    assert (statistics["rubrics"], statistics["dead_letters"]) == (3, 0)
    assert statistics["dropped_criteria"] == {"its weight is not 1, 2 or 3": 9}


def test_teachers_that_fail_leave_dead_letters_and_samples_without_a_majority_no_row(tmp_path, samples, serve):
    def third(text):
        return "no idea" if "picture 1" in text else checklist(ANSWER)

    answers = {"one": checklist(ANSWER), "two": fail(400, "too large"), "three": third, "merger": checklist(ANSWER)}
    out = stage(tmp_path / "run", config(serve(models(answers))), samples)
    assert [(row["sample_id"], row["candidates"]) for row in read_rows(out)] == [("s0", 2), ("s2", 2)]
    letters = [(row["sample_id"], row["purpose"], row["reason"]) for row in read_rows(out / "dead_letters")]
    assert sorted(letters) == [
        ("s0", "checklist by two", "transport"),
        ("s1", "checklist by three", "malformed"),
        ("s1", "checklist by two", "transport"),
        ("s2", "checklist by two", "transport"),
    ]
    assert next(row["raw"] for row in read_rows(out / "dead_letters") if row["reason"] == "malformed") == "no idea"


def test_a_merger_that_fails_leaves_a_dead_letter(tmp_path, samples, serve):
    def merge(text):
        return "They agree." if "picture 0" in text else checklist(ANSWER)

    answers = dict.fromkeys(THREE, checklist(ANSWER)) | {"merger": merge}
    out = stage(tmp_path / "run", config(serve(models(answers))), samples)
    assert [row["sample_id"] for row in read_rows(out)] == ["s1", "s2"]
    assert [row["purpose"] for row in read_rows(out / "dead_letters")] == ["merging by merger"]


def test_criteria_that_the_reference_fails_are_dropped(tmp_path, samples, serve):
    def examine(text):
        calls = [(item["criterion"], "expr_verify(predict='3')") for item in (ANSWER, WRONG)]
        return fail(400, "busy") if "picture 1" in text else scoring(*calls)

    script = models({"one": checklist(ANSWER, WRONG), "judge": examine})
    out = stage(tmp_path / "run", config(serve(script), ("one",), None, examiner="judge"), samples)
    rows = list(read_rows(out))
    assert [row["sample_id"] for row in rows] == ["s0", "s2"]
    assert [criterion["criterion"] for criterion in json.loads(rows[0]["rubric"])["criteria"]] == [ANSWER["criterion"]]
    assert figures(tmp_path / "run")["dropped_criteria"]["the reference answer does not fully satisfy it"] == 2
    letters = [(row["sample_id"], row["purpose"], row["criterion"]) for row in read_rows(out / "dead_letters")]
    assert letters == [("s1", "grading by judge", item["criterion"]) for item in (ANSWER, WRONG)]


def test_the_same_run_writes_the_same_tables_and_a_finished_one_asks_nothing(tmp_path, samples, serve):
    answers = dict.fromkeys(THREE, checklist(ANSWER)) | {"merger": checklist(ANSWER)}
    server = serve(models(answers))
    first = stage(tmp_path / "first", config(server), samples)
    request_count = len(server.chats)
    stage(tmp_path / "first", config(server), samples)
    assert len(server.chats) == request_count
    assert tables(stage(tmp_path / "second", config(server), samples)) == tables(first)


def test_no_usable_checklist_at_all_stops_the_run_with_the_reason(tmp_path, samples, serve):
    hollow = checklist({**ANSWER, "weight": 0}, additional=[STEP])
    with pytest.raises(
        UserError, match=r"no rubrics came of 3 samples: checklist by one: 3 x malformed \(.*nothing usable"
    ):
        stage(tmp_path / "run", config(serve(models({"one": hollow})), ("one",), None), samples)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"verifiers": {"count": ["eval"]}}, "task 'count': 'eval' is no verifier"),
        ({"verifiers": {"*": ["expr_verify", "expr_verify"]}}, "stands twice"),
        ({"min_proposals": 2}, "min_proposals is 2, and there are 1 teachers"),
        ({"min_proposals": 0}, "greater than or equal to 1"),
        ({"teachers": []}, "at least 1 item"),
        ({"teachers": [{"url": "http://a", "model": "m"}] * 2}, "2 teachers and no merger"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_anything_is_asked(settings, match):
    with pytest.raises(ValidationError, match=match):
        Config.model_validate({"teachers": [{"url": "http://a", "model": "m"}]} | settings)
