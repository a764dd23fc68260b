"""Stages taken from another run: real stages on a few photographs, with a captioner on loopback that counts."""

import json
import re
import shutil
import sys
import types
from io import BytesIO
from pathlib import Path

import pytest
from cli_fixtures import tell as tell
from PIL import Image
from scripted_server import ScriptedServer, say

from rubricworks.data.ledger import read_ledger
from rubricworks.data.tables import count_rows, read_rows
from rubricworks.errors import UserError
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import content_digest
from rubricworks.runtime.launch import launch
from rubricworks.runtime.reuse import write_reuse
from rubricworks.runtime.stage_table import STAGES, Stage
from rubricworks.training.checkpoints import model_digest

IMAGES = 6


@pytest.fixture
def server(serve) -> ScriptedServer:
    return serve(lambda number, _: say(f"caption {number}"))


@pytest.fixture
def images(tmp_path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(IMAGES):
        content = BytesIO()
        Image.new("RGB", (20, 20), (30 * number, 80, 120)).save(content, "PNG")
        (folder / f"{number}.png").write_bytes(content.getvalue())
    return folder


def make(run: Path, images: Path, server: ScriptedServer, *, held_out: int = 2, **recap) -> Path:
    """A run of two stages, the second of which asks a model."""
    samples = launch("prepare", json.dumps({"source": str(images), "held_out": held_out}), str(run), {})
    config = {"captioner": {"url": server.url, "model": "m"}} | recap
    return Path(launch("recap", json.dumps(config), str(run), {"samples": samples}))


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_stage_made_from_the_same_is_taken_and_asks_no_model(tmp_path, images, server, capfd):
    first = make(tmp_path / "first", images, server)
    request_count = len(server.chats)
    write_reuse(tmp_path / "second", [tmp_path / "first"])
    second = make(tmp_path / "second", images, server)

    assert second == tmp_path / "second" / "recap"
    assert request_count == len(server.chats) == IMAGES
    assert content(second) == content(first)
    assert "taken from first" in capfd.readouterr().err
    lines = {line["stage"]: line for line in read_ledger(tmp_path / "second")}
    assert (lines["recap"]["reused"], lines["recap"]["samples"]) == ("first", IMAGES)
    # What is read from outside a run is read again.
    assert "reused" not in lines["prepare"]
    # Done is done: nothing is copied a second time.
    shutil.rmtree(tmp_path / "first")
    assert content(make(tmp_path / "second", images, server)) == content(second)
    assert len(server.chats) == request_count


def test_a_stage_whose_result_is_json_alone_is_taken(tmp_path, images, capfd, monkeypatch):
    counting = types.ModuleType("rubricworks.stages.data.count_samples")
    counting.Config = StageConfig
    counting.run = lambda config, job: (job.out / "count.json").write_text(str(count_rows(job.inputs["samples"])))
    monkeypatch.setitem(sys.modules, counting.__name__, counting)
    monkeypatch.setitem(STAGES, "count_samples", Stage("count_samples", "stages.data", "data", "cpu", ("samples",)))

    def count(run: Path) -> Path:
        samples = launch("prepare", json.dumps({"source": str(images), "held_out": 2}), str(run), {})
        return Path(launch("count_samples", "{}", str(run), {"samples": samples}))

    first = count(tmp_path / "first")
    write_reuse(tmp_path / "second", [tmp_path / "first"])
    assert content(count(tmp_path / "second")) == content(first)
    assert "\ntaken from first\n" in capfd.readouterr().err
    # What was changed there is not taken.
    (first / "count.json").write_text("7")
    write_reuse(tmp_path / "third", [tmp_path / "first"])
    assert (count(tmp_path / "third") / "count.json").read_text() == str(IMAGES)
    assert "not taken from first: what it made was changed there" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("change", "message", "requests"),
    [
        ({"seed": 2}, "its configuration differs", 2 * IMAGES),
        ({"held_out": 3}, "its input differs: samples", IMAGES),
    ],
)
def test_a_stage_made_from_something_else_is_made_here(tmp_path, images, server, capfd, change, message, requests):
    first = make(tmp_path / "first", images, server)
    before = content(first)
    write_reuse(tmp_path / "second", [tmp_path / "first"])
    second = make(tmp_path / "second", images, server, **change)
    assert len(server.chats) == requests  # the same question about the same picture was answered there
    assert f"not taken from first: {message}" in capfd.readouterr().err
    assert content(second) != before == content(first)


def test_other_images_behind_the_same_recipe_are_another_input(tmp_path, images, server, capfd):
    make(tmp_path / "first", images, server)
    content = BytesIO()
    Image.new("RGB", (20, 20), (1, 2, 3)).save(content, "PNG")
    (images / "0.png").write_bytes(content.getvalue())
    write_reuse(tmp_path / "second", [tmp_path / "first"])
    make(tmp_path / "second", images, server)
    assert "not taken from first: its input differs: samples" in capfd.readouterr().err


def test_an_unfinished_stage_is_not_taken(tmp_path, images, server, capfd):
    (make(tmp_path / "first", images, server) / "done.json").unlink()
    write_reuse(tmp_path / "second", [tmp_path / "first"])
    assert len(list(read_rows(make(tmp_path / "second", images, server)))) == IMAGES
    assert "not taken from first: it is not finished there" in capfd.readouterr().err
    assert [line.get("reused") for line in read_ledger(tmp_path / "second")] == [None, None]
    assert len(server.chats) == IMAGES  # its answers are known


@pytest.mark.parametrize("table", ["samples", "captions"])
def test_a_damaged_table_is_not_taken(tmp_path, images, server, capfd, table):
    shard = next((make(tmp_path / "first", images, server) / table).glob("part-*.parquet"))
    damaged = bytearray(shard.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    shard.write_bytes(damaged)
    write_reuse(tmp_path / "second", [tmp_path / "first"])
    second = make(tmp_path / "second", images, server)
    assert "damaged" in capfd.readouterr().err
    assert len(list(read_rows(second / ("" if table == "samples" else table)))) == IMAGES
    assert [line.get("reused") for line in read_ledger(tmp_path / "second")] == [None, None]


def test_a_manifest_whose_shard_is_gone_is_not_taken(tmp_path, images, server, capfd):
    next(make(tmp_path / "first", images, server).glob("samples/part-*.parquet")).unlink()
    write_reuse(tmp_path / "second", [tmp_path / "first"])
    assert len(list(read_rows(make(tmp_path / "second", images, server)))) == IMAGES
    assert "not taken from first: it cannot be copied" in capfd.readouterr().err


def test_the_second_of_two_runs_is_tried_and_one_that_is_gone_is_no_hindrance(tmp_path, images, server, capfd):
    make(tmp_path / "other", images, server, seed=2)
    make(tmp_path / "first", images, server)
    request_count = len(server.chats)
    write_reuse(tmp_path / "second", [tmp_path / "gone", tmp_path / "other", tmp_path / "first"])
    make(tmp_path / "second", images, server)
    stderr = capfd.readouterr().err
    assert "not taken from gone: it is not finished there" in stderr
    assert "not taken from other: its configuration differs" in stderr
    assert len(server.chats) == request_count


def test_what_was_begun_here_gives_way_and_is_kept_aside(tmp_path, images, server):
    first = make(tmp_path / "first", images, server)
    unfinished = make(tmp_path / "second", images, server)
    (unfinished / "done.json").unlink()
    request_count = len(server.chats)
    write_reuse(tmp_path / "second", [tmp_path / "first"])
    assert content(make(tmp_path / "second", images, server)) == content(first)
    assert len(server.chats) == request_count
    assert len(list((tmp_path / "second" / "replaced").iterdir())) == 1


def student(folder: Path) -> Path:
    """Enough of a model for a stage that passes one on."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def pass_on(run: Path, images: Path, student: Path) -> Path:
    samples = launch("prepare", json.dumps({"source": str(images), "held_out": 2}), str(run), {})
    return Path(launch("warm_up", json.dumps({"student": str(student)}), str(run), {"samples": samples}))


def test_a_model_outside_both_runs_stays_a_link_to_where_it_is(tmp_path, images):
    model = student(tmp_path / "student")
    pass_on(tmp_path / "first", images, model)
    write_reuse(tmp_path / "second", [tmp_path / "first"])
    copy = pass_on(tmp_path / "second", images, model) / "model"
    assert copy.is_symlink()
    assert copy.resolve() == model


def test_nothing_that_is_written_in_one_run_reaches_the_other(tmp_path, images):
    model = student(tmp_path / "first" / "made" / "student")
    first = pass_on(tmp_path / "first", images, model)
    write_reuse(tmp_path / "second", [tmp_path / "first"])
    second = pass_on(tmp_path / "second", images, model)
    weights = second / "model" / "model.safetensors"
    assert not weights.resolve().is_relative_to(first.parent.resolve())
    with weights.open("r+b") as file:
        file.write(b"WEIGHTS")
    assert (model / "model.safetensors").read_bytes() == b"weights"
    (model / "model.safetensors").write_bytes(b"overwritten")
    assert weights.read_bytes() == b"WEIGHTS"


def test_a_model_that_was_changed_after_it_was_made_is_not_taken(tmp_path, images, capfd):
    model = student(tmp_path / "student")
    model_dir = pass_on(tmp_path / "first", images, model) / "model"
    model_dir.unlink()
    changed = student(model_dir)
    (changed / "model.safetensors").write_bytes(b"other weights")
    write_reuse(tmp_path / "second", [tmp_path / "first"])
    pass_on(tmp_path / "second", images, model)
    assert "not taken from first: what it made was changed there" in capfd.readouterr().err
    assert (tmp_path / "second" / "warm_up" / "model").resolve() == model


def test_digest_of_a_model_in_several_folders_depends_on_the_weights_in_each(tmp_path):
    """A pipeline of diffusers has its weights below `transformer/`, `vae/` and so on."""
    digests, trainings = [], []
    for weights in (b"one", b"two", b"one"):
        model = tmp_path / str(len(digests)) / "model"
        (model / "transformer").mkdir(parents=True)
        (model / "model_index.json").write_text("{}")
        (model / "transformer" / "diffusion_pytorch_model.safetensors").write_bytes(weights)
        digests.append(content_digest(model.parent))
        trainings.append(model_digest(model))
    for first, second, again in (digests, trainings):
        assert first == again != second


def test_a_run_of_an_earlier_version_is_neither_continued_nor_reused(tmp_path, images, server, tell):
    make(tmp_path / "old", images, server)
    (tmp_path / "old" / "recipe.yaml").write_text("policy: {of: before}")
    path = tmp_path / "old" / "prepare" / "made_from.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "record": 1}))
    message = f"{tmp_path / 'old'}: an earlier version of Rubricworks started this run, and this one cannot continue"
    with pytest.raises(UserError, match=re.escape(message)):
        launch("prepare", json.dumps({"source": str(images)}), str(tmp_path / "old"), {})
    for options in (["--resume", "old"], ["quickstart", "--reuse", "old"]):
        told = tell("run", *options, "--runs", tmp_path)
        assert (told.code, told.out) == (2, "")
        assert told.err.splitlines()[-1].startswith(f"error: {message}")
