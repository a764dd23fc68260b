"""Stages that ask models, started through `launch` on a few photographs against a scripted server."""

import json
import shutil
from io import BytesIO
from pathlib import Path

import pytest
from gateway_oddities import CAPTION, ODDITIES, GatewayServer
from PIL import Image
from scripted_server import Said, fail, say

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.runtime.launch import launch


def draw(folder: Path, names: list[str]) -> Path:
    """One picture of another shade for each name."""
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        content = BytesIO()
        Image.new("RGB", (32, 24), (20 * number, 80, 120)).save(content, "PNG")
        (folder / name).write_bytes(content.getvalue())
    return folder


def stage(run: Path, name: str, config: dict, **inputs: str) -> str:
    return launch(name, json.dumps(config), str(run), inputs)


@pytest.fixture
def run(tmp_path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def samples(tmp_path, run) -> str:
    source = draw(tmp_path / "images", [f"{number}.png" for number in range(6)])
    return stage(run, "prepare", {"source": str(source), "held_out": 2})


def test_prepare_splits_by_name_and_not_by_order_and_keeps_a_picture_once(tmp_path):
    first = draw(tmp_path / "first", [f"{number}.png" for number in range(6)])
    shutil.copytree(first, tmp_path / "second")
    shutil.copy(first / "0.png", tmp_path / "second" / "zz-again.png")
    config = {"held_out": 2, "warm_up": 1}
    splits = []
    for name in ("first", "second"):
        out = stage(tmp_path / f"run-{name}", "prepare", config | {"source": str(tmp_path / name)})
        splits.append({Path(row["source"]).name: row["split"] for row in read_rows(out)})
        rejected = list(read_rows(f"{out}/rejected"))
        assert len(rejected) == (name == "second")
    assert sorted(splits[0].values()) == ["held_out"] * 2 + ["train"] * 3 + ["warm_up"]
    assert "the same picture" in rejected[0]["reason"]
    assert len(splits[1]) == 6
    # One name more moves no other across the border except by taking a place.
    assert sum(splits[0][name] != split for name, split in splits[1].items() if name in splits[0]) <= 2


def test_prepare_fails_with_reasons_until_there_are_usable_images(tmp_path, run):
    source = tmp_path / "images"
    source.mkdir()
    for name in ("a.jpg", "b.jpg"):
        (source / name).write_text("text")
    with pytest.raises(UserError, match=r"a\.jpg: not an image"):
        stage(run, "prepare", {"source": str(source)})
    error = json.loads((run / "error.json").read_text())
    assert (error["stage"], error["seconds"] > 0) == ("prepare", True)
    assert len(list(read_rows(run / "prepare" / "rejected"))) == 2

    draw(source, ["c.png", "d.png"])
    out = stage(run, "prepare", {"source": str(source)})
    assert {Path(row["source"]).name for row in read_rows(out)} <= {"c.png", "d.png"}
    assert not (run / "error.json").exists()
    assert len(list((run / "replaced").iterdir())) == 1


def test_failing_captioner_leaves_a_dead_letter_and_the_other_captions(run, samples, serve):
    server = serve(lambda _, body: say("a wall") if body["model"] == "good" else fail(400, "too large"))
    teachers = [{"url": server.url, "model": name} for name in ("good", "bad")]
    out = stage(run, "caption_committee", {"teachers": teachers}, samples=samples)
    assert [row["captioner"] for row in read_rows(out)] == ["good"] * 6
    letters = list(read_rows(f"{out}/dead_letters"))
    assert len(letters) == 6
    assert {(row["stage"], row["purpose"], row["reason"]) for row in letters} == {
        ("caption_committee", "caption by bad", "transport")
    }
    assert "too large" in letters[0]["message"]


@pytest.mark.slow
@pytest.mark.usefixtures("quick_retries")
def test_a_stage_survives_every_oddity_of_gateways_and_keeps_the_right_captions(tmp_path, run, serve):
    source = draw(tmp_path / "images", ["a.png", "b.png"])
    samples = stage(run, "prepare", {"source": str(source), "held_out": 1})
    server = serve(GatewayServer())
    teachers = [{"url": server.url, "model": name} for name in ODDITIES]
    out = stage(run, "caption_committee", {"teachers": teachers}, samples=samples)
    captions = [(row["captioner"], row["caption"]) for row in read_rows(out)]
    right = [name for name, oddity in ODDITIES.items() if oddity.caption.error is None]
    assert captions == [(name, CAPTION) for name in right] * 2
    letters = {row["purpose"].removeprefix("caption by "): row for row in read_rows(f"{out}/dead_letters")}
    wrong = {name: oddity for name, oddity in ODDITIES.items() if oddity.caption.error is not None}
    assert {name: row["reason"] for name, row in letters.items()} == {
        name: oddity.caption.error.value for name, oddity in wrong.items()
    }
    assert [name for name, row in letters.items() if not 0 < len(row["raw"]) <= 20_000] == []


def test_captions_each_are_drawn_with_different_seeds(run, samples, serve):
    server = serve(lambda _, body: say(f"caption {body['seed']}"))
    config = {"teachers": [{"url": server.url, "model": "m", "temperature": 1.0}], "captions_each": 3}
    with pytest.warns(UserWarning, match="one model, asked 3 times"):
        out = stage(run, "caption_committee", config, samples=samples)
    captions = {}
    for row in read_rows(out):
        captions.setdefault(row["sample_id"], set()).add(row["caption"])
    assert {len(draws) for draws in captions.values()} == {3}


def test_writer_of_prose_leaves_dead_letters_and_is_called_again(run, samples, serve):
    draft = dict.fromkeys(("criterion", "description", "evaluation_rule", "justification", "teacher_consensus"), "wall")
    draft |= {"weight": 3, "student_already_met": False, "reference_teachers": ["Model 1", "Model 2"]}
    answer = ["Here is what I think of this rubric: it is fine."]

    def models(_: int, body: dict) -> Said:
        return say(answer[0] if body["model"] == "writer" else "a wall")

    url = serve(models).url
    teachers = [{"url": url, "model": name} for name in ("one", "two")]
    captions = stage(run, "caption_committee", {"teachers": teachers}, samples=samples)
    inputs = {"samples": samples, "captions": captions, "student_captions": captions}
    config = {"writer": {"url": url, "model": "writer"}}
    with pytest.raises(UserError, match=r"no rubrics came of 6 samples: rubric by writer: 6 x malformed"):
        stage(run, "synthesize_rubrics", config, **inputs)
    letters = list(read_rows(run / "synthesize_rubrics" / "dead_letters"))
    assert [row["raw"] for row in letters] == answer * 6
    assert {row["attempts"] for row in letters} == {3}

    answer[0] = json.dumps({"rubrics": [draft]})
    out = stage(run, "synthesize_rubrics", config, **inputs)
    assert [json.loads(row["rubric"])["criteria"][0]["criterion"] for row in read_rows(out)] == ["wall"] * 6


def test_finished_stage_calls_nobody_and_a_changed_one_moves_its_table(run, samples, serve):
    server = serve([say("a wall")])
    config = {"teachers": [{"url": server.url, "model": "m"}]}
    for _ in range(2):
        stage(run, "caption_committee", config, samples=samples)
    assert len(server.chats) == 6
    config["teachers"].append({"url": server.url, "model": "n"})
    out = stage(run, "caption_committee", config, samples=samples)
    assert len(server.chats) == 12  # the first captioner's answers come from the run's cache
    assert len(list(read_rows(out))) == 12
    assert len(list((run / "replaced").iterdir())) == 1


def test_a_stage_whose_input_is_not_finished_names_the_stage_to_run_first(tmp_path, run):
    with pytest.raises(UserError, match="the prepare stage has not finished"):
        stage(run, "caption_committee", {"teachers": [{"url": "http://x", "model": "m"}]}, samples=str(run / "prepare"))


def test_thoughts_of_the_student_are_no_part_of_its_captions(tmp_path, run, samples, monkeypatch):
    """A thought without an end leaves a caption that states nothing, as the student's own failure."""

    class Engine:
        def __call__(self, images, prompts, **_):
            return [("Hm?\n</think>\n\nA wall." if number else "<think>Hm", 5) for number in range(len(images))]

        def close(self):
            pass

    monkeypatch.setattr("rubricworks.training.engine.load_engine", lambda *_, **__: Engine())
    (tmp_path / "warm_up" / "model").mkdir(parents=True)
    (tmp_path / "warm_up" / "done.json").write_text('{"digest": "d"}')
    out = stage(run, "caption_student", {}, samples=samples, model=str(tmp_path / "warm_up"))
    assert [row["caption"] for row in read_rows(out)] == ["", *["A wall."] * 5]
