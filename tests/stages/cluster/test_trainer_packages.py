"""Packages that a recipe needs in the trainer image, looked for there before its stages wait for accelerators."""

import importlib.util
import json

import pytest
import yaml

from rubricworks.errors import UserError
from rubricworks.recipe.cluster_configs import recipe_yaml
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.runtime.launch import launch
from rubricworks.runtime.packages import packages_of


def written(name: str):
    """The recipe as preflight leaves it in the run's folder."""
    return yaml.safe_load(recipe_yaml(load_recipe(recipe_path(name), ())))


@pytest.mark.parametrize("name", ["rubicap", "balcaprl", "rlr3"])
def test_recipes_with_colocated_rollouts_need_vllm(name):
    assert packages_of(written(name))["vllm"] == "vllm.mode: colocate"


def test_recipes_for_laptops_need_none():
    assert "vllm" not in packages_of(written("quickstart"))
    assert "vllm" not in packages_of({})


def test_the_engine_of_a_stage_needs_vllm_too():
    assert packages_of({"student": {"engine": {"kind": "vllm"}}})["vllm"] == "engine.kind: vllm"
    assert "vllm" not in packages_of({"student": {"engine": {"kind": "generate"}}})


def test_an_image_without_vllm_is_refused_by_the_check_of_the_accelerators(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "vllm" else find(name, *rest))
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.yaml").write_text(yaml.safe_dump(written("rlr3")))
    with pytest.raises(UserError, match=r"^this image lacks vllm \(for vllm\.mode: colocate\); take the trainer image"):
        launch("check_accelerators", "{}", str(run), {})
    assert json.loads((run / "error.json").read_text())["stage"] == "check_accelerators"
