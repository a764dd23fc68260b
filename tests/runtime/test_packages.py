"""Packages that a recipe needs, looked for on this machine before the first call that costs money."""

import importlib.util
import json
import typing

import pytest
from pydantic import BaseModel
from scripted_server import Said, say

from rubricworks.errors import UserError
from rubricworks.llm import Endpoint
from rubricworks.recipe.cluster_configs import recipe_yaml
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.runtime.launch import launch
from rubricworks.runtime.packages import optional_packages, require_installed
from rubricworks.runtime.stage_table import STAGES
from rubricworks.world.scene.export import export_scenes


def without(monkeypatch, *packages):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in packages else find(name))


@pytest.mark.parametrize("command", ["doctor", "run"])
@pytest.mark.parametrize(
    ("settings", "package", "reason", "extra"),
    [
        ("policy.algorithm.rollouts.vllm.mode=colocate", "vllm", "vllm.mode: colocate", "gpu"),
        ("student.engine.kind=vllm", "vllm", "engine.kind: vllm", "gpu"),
        ("policy.algorithm.optimizer.lora.rank=8", "peft", "lora", "train"),
        ("warm_up.sft.optimizer.lora.rank=8", "peft", "lora", "train"),
    ],
)
def test_a_missing_package_is_one_line_before_any_call(
    command, settings, package, reason, extra, tell, serve, tmp_path, monkeypatch
):
    export_scenes(tmp_path / "scenes", seed=3, count=4)
    images = tmp_path / "scenes" / "images"
    listing = Said(json.dumps({"object": "list", "data": [{"id": "qwen"}]}).encode())
    server = serve(lambda _, body: say("a circle") if body else listing)
    assert tell("init", "--images", images, "--endpoint", server.url, "--student", "tiny").code == 0
    asked = len(server.chats)
    without(monkeypatch, package)
    result = tell(command, "my-recipe.yaml", "--set", settings)
    line = f"{package} (for {reason}) not installed; run: pip install 'rubricworks[{extra}]'"
    assert result.code == 2
    assert line in result.out + result.err
    assert len(server.chats) == asked or command == "doctor"


def test_a_reader_of_text_asks_for_its_package_and_a_model_for_the_comparison_alone(monkeypatch):
    reader = "policy.reward.text_reader=rapidocr"
    needs = optional_packages(load_recipe(recipe_path("rubricrl-ar-laptop"), [reader]).model_dump(mode="json"))
    assert set(needs) == {"rapidocr_onnxruntime", "rapidfuzz", "opencc"}
    without(monkeypatch, "rapidocr_onnxruntime")
    with pytest.raises(UserError, match=r"rapidocr_onnxruntime \(for text_reader: rapidocr\) .*rubricworks\[ocr\]"):
        require_installed(dict.fromkeys(["rapidocr_onnxruntime"], needs["rapidocr_onnxruntime"]))
    model = "evaluation.scorers.rubric.text_reader={url: 'http://a/v1', model: ocr}"
    needs = optional_packages(load_recipe(recipe_path("rubricrl-ar-laptop"), [model]).model_dump(mode="json"))
    assert set(needs) == {"rapidfuzz", "opencc"}
    with pytest.raises(UserError, match="mask_text needs a text_reader"):
        load_recipe(recipe_path("rubricrl-ar-laptop"), ["policy.reward.mask_text=true"])


def test_a_flow_needs_diffusers():
    assert optional_packages({"pretrain_generator": {"generator": "tiny_flow"}}) == {
        "diffusers": "generator: tiny_flow"
    }
    assert optional_packages({"pretrain_generator": {"generator": "tiny_ar", "tiny_flow": {"steps": 3}}}) == {}


def test_the_verifiers_of_rlr3_are_looked_for_too(monkeypatch, tmp_path):
    without(monkeypatch, "sympy")
    (check,) = load_recipe(recipe_path("rlr3-laptop"), ()).method_checks(tmp_path)
    assert check.problem == ("sympy (for verifiers of answers) not installed; run: pip install 'rubricworks[eval]'")


def test_a_champions_recipe_tells_the_check_of_its_branch_what_to_look_for(tmp_path, monkeypatch):
    stages = load_recipe(recipe_path("rubicap"), ()).staged_recipe().stages
    assert optional_packages(stages) == {"vllm": "vllm.mode: colocate"}
    without(monkeypatch, "vllm")
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.yaml").write_text(recipe_yaml(load_recipe(recipe_path("retrain"), ())))
    configs = json.dumps({"stages": {"check_accelerators": {"packages": optional_packages(stages)}}})
    with pytest.raises(Exception, match=r"^this image lacks vllm \(for vllm\.mode: colocate\)"):
        launch("check_accelerators", configs, str(run), {})


def names_endpoint(kind, seen):
    """Return True if a configuration can hold an endpoint anywhere."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if issubclass(kind, Endpoint):
            return True
        if kind in seen:
            return False
        seen.add(kind)
        return any(names_endpoint(field.annotation, seen) for field in kind.model_fields.values())
    return any(names_endpoint(member, seen) for member in typing.get_args(kind))


@pytest.mark.parametrize("stage", [stage for stage in STAGES.values() if stage.phase != "cluster"], ids=lambda s: s.id)
def test_the_stage_table_tells_which_stages_call_models(stage):
    assert stage.calls_models == names_endpoint(stage.load_config(), set())
