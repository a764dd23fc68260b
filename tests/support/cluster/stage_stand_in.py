"""Pipelines run with their real DAG and components, and a stand-in for the stages."""

import importlib
import inspect
import json
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kfp import dsl

from rubricworks.kubeflow.arguments import pipeline_arguments
from rubricworks.runs.local import run_local
from rubricworks.runtime.stage_table import STAGES


class Dag(NamedTuple):
    """A pipeline and the inputs that its stages should get."""

    pipeline: Any
    inputs: Mapping[str, Mapping[str, str]]
    """Stage → each of its inputs → the stage that made it."""


# Python imports `sitecustomize` when it starts: the stages' processes find this in place of the real launch.
_STAND_IN = """
import json, os, sys, types

def launch(stage, config, run, inputs, *, view, metrics, lineage=None, output_values=None):
    with open(view, "w") as file:
        file.write(f"<h1>{stage}</h1>")
    metrics("rows", 7)
    if lineage is not None:
        lineage({"uri": f"{run}/{stage}"})
    if output_values is not None:
        output_values.update(json.loads(os.environ["HANDED_ON"]))
    with open(os.path.join(run, "launched.jsonl"), "a") as file:
        file.write(json.dumps({"stage": stage, "config": config, "inputs": inputs}) + "\\n")
    return f"{run}/{stage}"

# What stages would load before they are forked takes seconds, and none is used.
for name in ("runtime.launch", "reports.stage_page", "grading", "tracking", "training.sft", "training.policy.grpo"):
    sys.modules[f"rubricworks.{name}"] = types.ModuleType(f"rubricworks.{name}")
sys.modules["rubricworks.runtime.launch"].launch = launch
"""


def check_whole_run(dag: Dag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stage is launched once, with its own configuration and the outputs that it needs, after they are there."""
    run = folder / "run"
    configs = {stage: json.dumps({"stage": stage, "steps": [8, 0.5]}) for stage in dag.inputs}

    launched = run_through(dag.pipeline, pipeline_arguments(str(run), configs), run, monkeypatch)

    assert sorted(call["stage"] for call in launched) == sorted(dag.inputs)
    for stage in dag.inputs:
        (view,) = (run / "kfp").glob(f"*/{stage.replace('_', '-')}/view")
        assert view.read_text() == f"<h1>{stage}</h1>"
    names: set[str] = set()
    for call in launched:
        environment = {name: uri for name, uri in call["inputs"].items() if uri}
        assert environment == {name: f"{run}/{maker}" for name, maker in dag.inputs[call["stage"]].items()}
        assert set(environment.values()) <= names, "a stage ran before what it reads was there"
        assert call["config"] == configs[call["stage"]]
        names.add(f"{run}/{call['stage']}")


def run_through(
    pipeline: Any, arguments: dict[str, str], run: Path, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """Run a pipeline in this folder; the launches of its stages, in order."""
    shim = run.parent / "shim"
    shim.mkdir()
    run.mkdir()
    (shim / "sitecustomize.py").write_text(_STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(shim))
    run_local(pipeline, arguments, run=run)
    return [json.loads(line) for line in (run / "launched.jsonl").read_text().splitlines()]


def check_component(stage: str, inputs: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes each input to its stage under its own name, and is described for the web pages."""
    stand_in = types.ModuleType("rubricworks.runtime.launch")
    stand_in.launch = lambda *call, **text: (*call, text)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rubricworks.runtime.launch", stand_in)
    component = component_of(stage)
    uris = {name: f"uri of {name}" for name in inputs}
    view, metrics = dsl.HTML(uri="gs://store/view"), dsl.Metrics(uri="gs://store/metrics")
    text = {"view": view.path, "metrics": metrics.log_metric}
    outputs = {"view": view, "metrics": metrics}
    output_types = {"Output": "String", "view": "system.HTML@0.0.1", "metrics": "system.Metrics@0.0.1"}
    if kind := STAGES[stage].artifact:
        name, artifact = ("dataset", dsl.Dataset()) if kind == "Dataset" else ("checkpoint", dsl.Model())
        outputs[name], output_types[name] = artifact, f"{artifact.schema_title}@{artifact.schema_version}"
        text["lineage"] = artifact.metadata.update
    assert component.python_func(config="{}", run="r", **uris, **outputs) == (stage, "{}", "r", uris, text)
    spec = component.component_spec
    assert {name: output.type for name, output in spec.outputs.items()} == output_types
    assert spec.description
    assert set(spec.inputs) == {"config", "run", *inputs}
    # Other types would be changed on their way (8 in a list becomes 8.0); YAML 1.1 reads the words below as booleans.
    signature = inspect.signature(component.python_func)
    assert {str(signature.parameters[name].annotation) for name in spec.inputs} == {str(str)}
    assert signature.return_annotation is str
    assert not {name.lower() for name in signature.parameters} & {"y", "n", "yes", "no", "on", "off"}


def component_of(stage: str) -> Any:
    return getattr(importlib.import_module(STAGES[stage].component), stage)
