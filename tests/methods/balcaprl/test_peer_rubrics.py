"""RubiCap's rubrics for a peer: none by default, else those of its three stages, and none asked for twice."""

import json
from pathlib import Path
from typing import Any

import pytest
from asked_stages import count_requests, prepare, tables
from coloured_squares import SMALL, squares
from scripted_server import Said, ScriptedServer, fail, say

from rubricworks.data.tables import count_rows, read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.llm.cache import CACHE_FILE
from rubricworks.methods.balcaprl.stages.peer_rubrics import Config
from rubricworks.reports.run_folder import read_dead_letters
from rubricworks.rubrics import Rubric
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import close_job, open_job
from rubricworks.runtime.launch import launch
from rubricworks.stages.synthesis import caption_student

DRAFT = dict.fromkeys(("criterion", "description", "evaluation_rule", "justification", "teacher_consensus"), "wall")
DRAFT |= {"weight": 3, "student_already_met": False, "reference_teachers": ["Model 1", "Model 2"]}


@pytest.fixture(scope="module")
def student(tmp_path_factory) -> str:
    """An untrained one."""
    pytest.importorskip("transformers")
    from rubricworks.training.tiny.student import build_student

    job = open_job("warm_up", StageConfig(), tmp_path_factory.mktemp("student"), {})
    texts = [text for _, prompt, caption in squares() for text in (prompt, caption)]
    build_student(texts, job.out / "model", config=SMALL, images=[image for image, _, _ in squares()], seed=1)
    close_job(job, 0.0)
    return str(job.out)


@pytest.fixture
def inputs(tmp_path, student) -> dict[str, str]:
    return {"samples": prepare(tmp_path, 6), "model": student}


def models(_: int, body: dict[str, Any]) -> Said:
    return {"writer": say(json.dumps({"rubrics": [DRAFT]})), "bad": fail(400, "too large")}.get(
        body["model"], say(f"{body['model']} sees a wall")
    )


def config(server: ScriptedServer, *teachers: str) -> dict[str, Any]:
    def model(name: str) -> dict[str, Any]:
        return {"url": server.url, "model": name}

    return {
        "seed": 7,
        "committee": {"teachers": [model(name) for name in teachers or ("one", "two")]},
        "student": {"max_new_tokens": 4},
        "rubric": {"writer": model("writer")},
    }


def make(run: Path, config: dict[str, Any], inputs: dict[str, str]) -> Path:
    return Path(launch("peer_rubrics", json.dumps(config), str(run), inputs))


def test_by_default_the_table_is_empty_and_the_model_is_not_even_loaded(inputs, tmp_path, monkeypatch):
    monkeypatch.delattr(caption_student, "run")
    out = make(tmp_path / "run", {}, inputs)
    assert list(read_rows(out)) == []
    assert [path.name for path in out.iterdir() if path.is_dir()] == ["dead_letters"]


def test_a_recipe_from_before_there_were_any_makes_none(inputs, tmp_path):
    """Recipe as the registry hands it to a retraining: the configurations of all earlier stages."""
    assert count_rows(make(tmp_path / "run", {"stages": {"prepare": {"source": "images"}}}, inputs)) == 0


def test_rubrics_are_those_of_the_three_stages_on_the_training_samples(inputs, serve, tmp_path):
    server = serve(models)
    out = make(tmp_path / "run", config(server), inputs)
    train = [sample.sample_id for sample in read_samples(inputs["samples"], "train")]
    rows = list(read_rows(out))
    assert [row["sample_id"] for row in rows] == train
    assert {Rubric.model_validate_json(row["rubric"]).criteria[0].criterion for row in rows} == {"wall"}
    captions = list(read_rows(out / "caption_committee"))
    assert {(row["sample_id"], row["caption"]) for row in captions} == {
        (name, f"{teacher} sees a wall") for name in train for teacher in ("one", "two")
    }
    answers = {row["sample_id"]: row["caption"] for row in read_rows(out / "caption_student")}
    assert list(answers) == train
    prompts = [chat.text for chat in server.chats if chat.body["model"] == "writer"]
    assert len(prompts) == len(train)
    assert all("one sees a wall" in prompt and "two sees a wall" in prompt for prompt in prompts)
    (line,) = map(json.loads, (out.parent / "ledger.jsonl").read_text().splitlines())
    assert (line["captions"], line["student_captions"], line["rubrics"]) == (8, 4, 4)


def test_a_run_killed_between_two_parts_goes_on_with_what_the_first_had_made(inputs, serve, tmp_path, monkeypatch):
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    server, run = serve(models), tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(caption_student, "run", killed)
        with pytest.raises(KeyboardInterrupt):
            make(run, config(server), inputs)
    assert count_rows(run / "peer_rubrics" / "caption_committee") == len(count_requests(server)) == 8
    (run / CACHE_FILE).unlink()  # nothing but the table itself can keep them from being asked again
    out = make(run, config(server), inputs)
    assert set(count_requests(server).values()) == {1}
    assert tables(out) == tables(make(tmp_path / "unbroken", config(server), inputs))


def test_committee_without_answers_is_called_again_and_counted(inputs, serve, tmp_path):
    down = [True]
    server = serve(lambda number, body: fail(400, "no") if down[0] else models(number, body))
    run = tmp_path / "run"
    with pytest.raises(UserError, match="no captions came of 4 samples: caption by one: 4 x transport"):
        make(run, config(server, "one", "two", "bad"), inputs)
    assert len({dead_letter.purpose for dead_letter in read_dead_letters(run)}) == 3
    down[0] = False
    assert count_rows(make(run, config(server, "one", "two", "bad"), inputs)) == 4
    assert [(dead_letter.stage, dead_letter.purpose, dead_letter.count) for dead_letter in read_dead_letters(run)] == [
        ("peer_rubrics", "caption by bad", 4)
    ]


def test_parts_have_the_seed_of_the_stage_unless_they_set_their_own(serve):
    settings = config(serve(models))
    parsed = Config.model_validate(settings | {"rubric": settings["rubric"] | {"seed": 3}})
    assert (parsed.committee.seed, parsed.student.seed, parsed.rubric.seed) == (7, 7, 3)
    assert Config(seed=7).student.seed == 7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"committee": None}, "committee is not set: rubrics take a committee and a rubric writer, or neither"),
        ({"rubric": None}, "rubric is not set"),
    ],
)
def test_half_a_configuration_is_refused(changes, message, serve):
    with pytest.raises(ValueError, match=message):
        Config.model_validate(config(serve(models)) | changes)


def test_a_committee_too_small_for_a_rubric_is_refused(serve):
    with pytest.raises(ValueError, match=r"gives 1 caption\(s\) of an image, rubric.min_candidates is 2"):
        Config.model_validate(config(serve(models), "one"))
