"""Which model directories are checkpoints of one model, whose weights a running vLLM takes in turn."""

import json
import shutil

import pytest
from safetensors.torch import load_file, save_file

from rubricworks.training.vllm_weights import layout_digest


@pytest.fixture
def checkpoint(student, tmp_path):
    """The student with other weights, as a training saves it."""
    folder = shutil.copytree(student, tmp_path / "checkpoint")
    weights = load_file(folder / "model.safetensors")
    save_file({name: tensor + 1 for name, tensor in weights.items()}, folder / "model.safetensors", {"by": "training"})
    change(folder, "tokenizer_config.json", pad_token_type_id=0, max_length=None)
    change(folder, "config.json", transformers_version="9.9.9")
    (folder / "README.md").write_text("a card")
    return folder


def change(folder, name, **values):
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_other_weights_and_what_no_engine_reads_leave_it_the_same_model(student, checkpoint):
    assert layout_digest(checkpoint) == layout_digest(student)


@pytest.mark.parametrize("name", ["chat_template.jinja", "tokenizer.json", "config.json"])
def test_another_template_vocabulary_or_architecture_is_another_model(student, checkpoint, name):
    if name == "config.json":
        change(checkpoint, name, tie_word_embeddings="another")
    else:
        (checkpoint / name).write_bytes((checkpoint / name).read_bytes() + b" ")
    assert layout_digest(checkpoint) != layout_digest(student)


def test_weights_of_another_shape_or_unknown_form_are_another_model(student, checkpoint):
    weights = load_file(checkpoint / "model.safetensors")
    name = max(weights, key=lambda name: weights[name].numel())
    save_file(weights | {name: weights[name][:-1].contiguous()}, checkpoint / "model.safetensors")
    assert layout_digest(checkpoint) != layout_digest(student)
    (checkpoint / "model.safetensors").rename(checkpoint / "pytorch_model.bin")
    assert layout_digest(checkpoint) != layout_digest(shutil.copytree(checkpoint, checkpoint.with_name("copy")))
