"""Weights of a folder that are not of its config, found in the headers of its files."""

import json

import pytest
from transformers import AutoModelForImageTextToText

from rubricworks.rehearsal.miniatures import build_miniature
from rubricworks.rehearsal.saved_weights import weight_problems

EXPERTS = "Qwen/Qwen3-VL-30B-A3B-Instruct@" + "0" * 40
MODELS = [EXPERTS, *(f"{name}@{'0' * 40}" for name in ("Qwen/Qwen2.5-VL-3B-Instruct", "BAAI/Emu3-Gen-hf"))]
MODELS += [f"openai/clip-vit-large-patch14-336@{'0' * 40}", f"black-forest-labs/FLUX.1-dev@{'0' * 40}"]


@pytest.fixture(scope="module")
def experts(tmp_path_factory):
    return build_miniature(EXPERTS, tmp_path_factory.mktemp("experts") / "hub", ["a red square"]).folder


def problems(folder):
    config = folder / "config.json"
    shape = json.loads((config if config.is_file() else folder / "model_index.json").read_bytes())
    return list(weight_problems(str(folder), shape))


@pytest.mark.parametrize("model", MODELS)
def test_weights_in_the_layout_of_the_hub_are_no_problem(model, tmp_path):
    assert problems(build_miniature(model, tmp_path / "model", ["a red square"]).folder) == []


def test_experts_as_transformers_keeps_them_in_memory_are_named(experts, tmp_path):
    model = AutoModelForImageTextToText.from_pretrained(experts)
    model.save_pretrained(tmp_path)
    text = model.config.text_config
    (problem,) = problems(tmp_path)
    assert problem.startswith(f"{tmp_path}: {2 * text.num_hidden_layers} weights have not the shapes of its config")
    sides = text.hidden_size, text.moe_intermediate_size
    down, hub = [text.num_experts, *sides], [text.num_experts, *reversed(sides)]
    assert problem.endswith(f"model.language_model.layers.0.mlp.experts.down_proj is {down} instead of {hub}")


def test_a_file_that_is_no_safetensors_is_named(experts, tmp_path):
    (tmp_path / "config.json").write_bytes((experts / "config.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    (problem,) = problems(tmp_path)
    assert problem.startswith(f"{tmp_path / 'model.safetensors'} cannot be read: ")


def test_a_folder_without_weights_and_a_name_on_the_hub_are_no_problem(experts, tmp_path):
    shape = json.loads((experts / "config.json").read_bytes())
    assert list(weight_problems(str(tmp_path), shape)) == []
    assert list(weight_problems(EXPERTS, shape)) == []
