"""The real DAG and the real components, with a stand-in for the stages."""

import importlib
import inspect
import json
import sys
import types
from pathlib import Path

import pytest

from rubricworks.pipelines.arguments import pipeline_arguments
from rubricworks.pipelines.local import run_local
from rubricworks.pipelines.rubicap import rubicap

INPUTS = {
    "prepare": [],
    "warm_up": ["samples"],
    "caption_committee": ["samples"],
    "caption_student": ["samples", "model"],
    "synthesize_rubrics": ["samples", "captions", "student_captions"],
    "train_policy": ["samples", "rubrics", "model", "captions"],
    "evaluate": ["samples", "rubrics", "model", "policy"],
    "promote": ["evaluations", "policy", "samples"],
    "report": ["promotion"],
}
WRITES = {
    "prepare": "samples",
    "warm_up": "model",
    "caption_committee": "captions",
    "caption_student": "student_captions",
    "synthesize_rubrics": "rubrics",
    "train_policy": "policy",
    "evaluate": "evaluations",
    "promote": "promotion",
}

# Python imports `sitecustomize` when it starts: the stages' processes find this in place of the real launch.
STAND_IN = """
import json, os, sys, types

def launch(stage, config, run, inputs):
    with open(os.path.join(run, "launched.jsonl"), "a") as file:
        file.write(json.dumps({"stage": stage, "config": config, "inputs": inputs}) + "\\n")
    return f"{run}/{stage}"

module = types.ModuleType("rubricworks.stages.launch")
module.launch = launch
sys.modules["rubricworks.stages.launch"] = module
"""


def component(stage: str):
    return getattr(importlib.import_module(f"rubricworks.components.{stage}"), stage)


def test_the_whole_pipeline_launches_every_stage_once_with_the_outputs_it_needs(tmp_path, monkeypatch):
    shim, run = tmp_path / "shim", tmp_path / "run"
    shim.mkdir()
    run.mkdir()
    (shim / "sitecustomize.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(shim))
    configs = {stage: json.dumps({"stage": stage, "steps": [8, 0.5]}) for stage in INPUTS}

    run_local(rubicap, pipeline_arguments(str(run), configs), run=run)

    launched = [json.loads(line) for line in (run / "launched.jsonl").read_text().splitlines()]
    assert sorted(call["stage"] for call in launched) == sorted(INPUTS)
    produced = {name: f"{run}/{stage}" for stage, name in WRITES.items()}
    made = set()
    for call in launched:
        assert call["inputs"] == {name: produced[name] for name in INPUTS[call["stage"]]}
        assert set(call["inputs"].values()) <= made, "a stage ran before what it reads was there"
        assert call["config"] == configs[call["stage"]]
        made.add(f"{run}/{call['stage']}")


@pytest.mark.parametrize("stage", INPUTS)
def test_a_component_passes_each_input_to_its_stage_under_its_own_name(stage, monkeypatch):
    stand_in = types.ModuleType("rubricworks.stages.launch")
    stand_in.launch = lambda *call: call
    monkeypatch.setitem(sys.modules, "rubricworks.stages.launch", stand_in)
    inputs = {name: f"uri of {name}" for name in INPUTS[stage]}
    assert component(stage).python_func(config="{}", run="r", **inputs) == (stage, "{}", "r", inputs)


@pytest.mark.parametrize("stage", INPUTS)
def test_a_component_takes_and_gives_strings_with_names_that_yaml_reads_as_names(stage):
    # Other types would be changed on their way (8 in a list becomes 8.0); YAML 1.1 reads the words below as booleans.
    signature = inspect.signature(component(stage).python_func)
    assert {str(parameter.annotation) for parameter in signature.parameters.values()} == {str(str)}
    assert signature.return_annotation is str
    assert not {name.lower() for name in signature.parameters} & {"y", "n", "yes", "no", "on", "off"}


def test_every_component_on_disk_is_a_stage_of_the_pipeline():
    import rubricworks.components

    folder = Path(rubricworks.components.__file__).parent
    assert {path.parent.name for path in folder.glob("*/component.py")} == set(INPUTS)


@pytest.mark.parametrize("stage", INPUTS)
def test_the_web_pages_describe_every_component(stage):
    spec = component(stage).component_spec
    assert spec.description
    assert set(spec.inputs) == {"config", "run", *INPUTS[stage]}
