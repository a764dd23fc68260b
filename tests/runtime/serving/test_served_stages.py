"""Stages that call a model which the run serves: real stages, and a small server in place of `vllm serve`."""

import json
import os
import shutil
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from vllm_stand_in import install, model_folder

from rubricworks.data.tables import read_rows
from rubricworks.errors import TransientError, UserError
from rubricworks.llm.identity import IDENTITY_FILE, read_identities
from rubricworks.llm.served import ServedModel
from rubricworks.runtime.launch import launch
from rubricworks.runtime.reuse import write_reuse
from rubricworks.runtime.serving.identity import served_weights

IMAGES = 4


@pytest.fixture
def samples(tmp_path) -> str:
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(IMAGES):
        content = BytesIO()
        Image.new("RGB", (20, 20), (30 * number, 80, 120)).save(content, "PNG")
        (folder / f"{number}.png").write_bytes(content.getvalue())
    return launch("prepare", json.dumps({"source": str(folder), "held_out": 1}), str(tmp_path / "data"), {})


def recap(run: Path, samples: str, model: Path, **definition: object) -> Path:
    served = {"name": "captioner", "model": str(model), **definition}
    return Path(launch("recap", json.dumps({"captioner": {"serve": served}}), str(run), {"samples": samples}))


def captions(folder: Path) -> set[str]:
    return {row["caption"] for row in read_rows(folder / "captions")}


def test_a_model_answers_for_its_stage_and_leaves_no_process(tmp_path, samples, vllm):
    out = recap(tmp_path / "run", samples, model_folder(tmp_path / "model", "a red house"), max_model_length=99)
    assert captions(out) == {"a red house"}
    [[_, *arguments]] = vllm.starts
    assert arguments[:4] == ["serve", str(tmp_path / "model"), "--served-model-name", "captioner"]
    assert arguments[-2:] == ["--max-model-len", "99"]
    assert vllm.left() == []
    assert not [name for name in os.environ if name.startswith("RUBRICWORKS_SERVED_")]


def test_a_stage_that_is_done_starts_no_model(tmp_path, samples, vllm):
    model = model_folder(tmp_path / "model", "a red house")
    recap(tmp_path / "run", samples, model)
    recap(tmp_path / "run", samples, model)
    assert len(vllm.starts) == 1


def test_other_weights_under_the_same_name_are_asked_anew(tmp_path, samples, vllm):
    model = model_folder(tmp_path / "model", "a red house")
    recap(tmp_path / "run", samples, model)
    (model / "model.safetensors").write_text("a blue boat")
    assert captions(recap(tmp_path / "run", samples, model)) == {"a blue boat"}
    assert len(vllm.chats) == 2 * IMAGES
    entries = read_identities(tmp_path / "run" / IDENTITY_FILE)["captioner"]
    first, second = (entry.revision.split() for entry in entries)
    assert first[0] != second[0]
    assert first[1:] == second[1:] == ["vllm-0.30.0", "--generation-config", "vllm"]


@pytest.mark.parametrize("change", ["weights", "version", "arguments"])
def test_a_stage_of_another_identity_is_not_reused(tmp_path, samples, vllm, capfd, change):
    model, definition = model_folder(tmp_path / "model", "a red house"), {}
    recap(tmp_path / "first", samples, model)
    if change == "weights":
        (model / "model.safetensors").write_text("a blue boat")
    elif change == "version":
        install(vllm.folder, "0.31.0")
    else:
        definition = {"arguments": {"dtype": "float32"}}
    write_reuse(tmp_path / "second", [tmp_path / "first"])
    recap(tmp_path / "second", samples, model, **definition)
    said = capfd.readouterr().err
    assert "not taken from first: " in said
    assert change == "arguments" or "what it was made with differs: serve.captioner" in said
    assert len(vllm.chats) == 2 * IMAGES


def test_the_same_identity_is_reused_without_a_server(tmp_path, samples, vllm):
    model = model_folder(tmp_path / "model", "a red house")
    recap(tmp_path / "first", samples, model)
    moved = shutil.copytree(model, tmp_path / "elsewhere")
    shutil.rmtree(model)
    write_reuse(tmp_path / "second", [tmp_path / "first"])
    model.symlink_to(moved)
    recap(tmp_path / "second", samples, model)
    assert len(vllm.starts) == 1


@pytest.mark.parametrize(
    ("misbehave", "words"),
    [
        ("exit", "ended before it was ready (exit code 1): ValueError: no room for the KV cache"),
        ("never", "was not ready within 1 s; allow more (serve.captioner.start_within)"),
        ("500", "answers 500 to a first request: no chat template"),
        ("400", "answers 400 to a first request: no chat template"),
    ],
)
def test_a_server_that_does_not_start_is_one_line_and_nothing_is_left(tmp_path, samples, vllm, misbehave, words):
    model = model_folder(tmp_path / "model", "a red house")
    options = {"arguments": {"misbehave": misbehave}, "start_within": 1 if misbehave == "never" else 600}
    with pytest.raises(TransientError) as caught:
        recap(tmp_path / "run", samples, model, **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "run" / "logs" / "serve-captioner.log").is_file()
    assert vllm.chats == []
    assert vllm.left() == []


def test_a_stage_whose_weights_were_pruned_is_named_with_the_way_to_make_them_again(tmp_path):
    output = model_folder(tmp_path / "train_genrm" / "model", "weights").parent
    (output / "done.json").write_text('{"digest": "77"}')
    served = ServedModel(name="genrm", model={"stage": "train_genrm"})
    assert served_weights(served, {"genrm": output}).digest == "sha256:77"
    (output / "model" / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"the weights of train_genrm are gone from .*resume the run to train it again"):
        served_weights(served, {"genrm": output})
    with pytest.raises(UserError, match="the stage gets no output of train_genrm"):
        served_weights(served, {})


def test_a_folder_without_a_model_is_one_line(tmp_path, samples, vllm):
    with pytest.raises(UserError, match=r"serve\.captioner\.model: .*nothing: there is no such folder|no config\.json"):
        recap(tmp_path / "run", samples, tmp_path / "nothing")
    assert vllm.starts == []
