import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from google.protobuf import json_format
from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec
from pipeline_inputs import BALCAPRL, GATES, RLR3, RUBICAP

from rubricworks.errors import UserError
from rubricworks.kubeflow.compile import compile_pipeline
from rubricworks.pipelines.balcaprl import balcaprl
from rubricworks.pipelines.rlr3 import rlr3
from rubricworks.pipelines.rubicap import rubicap

DAGS = {"rubicap": RUBICAP, "rlr3": RLR3, "balcaprl": BALCAPRL}
PIPELINES = (rubicap, rlr3, balcaprl)


@pytest.fixture(scope="module", params=PIPELINES, ids=list(DAGS))
def pipeline(request):
    return request.param


@pytest.fixture(scope="module")
def compiled(pipeline, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("compiled") / "new" / f"{pipeline.name}.yaml"
    compile_pipeline(pipeline, path)
    return path


@pytest.fixture(scope="module")
def spec(compiled) -> PipelineSpec:
    return json_format.ParseDict(yaml.safe_load(compiled.read_text()), PipelineSpec())


@pytest.mark.slow
def test_compiling_again_in_another_process_gives_the_same_bytes(tmp_path):
    program = (
        "import importlib, sys, pathlib; from rubricworks.kubeflow.compile import compile_pipeline\n"
        "for name in sys.argv[2:]:\n"
        "    pipeline = getattr(importlib.import_module(f'rubricworks.pipelines.{name}'), name)\n"
        "    compile_pipeline(pipeline, pathlib.Path(sys.argv[1]) / f'{name}.yaml')"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    command = [sys.executable, "-c", program, str(tmp_path / "again"), *DAGS]
    subprocess.run(command, check=True, env=environment, cwd=tmp_path)
    for pipeline in PIPELINES:
        compile_pipeline(pipeline, first := tmp_path / "first" / f"{pipeline.name}.yaml")
        assert (tmp_path / "again" / first.name).read_bytes() == first.read_bytes(), pipeline.name


def test_every_stage_waits_for_those_whose_outputs_it_reads_and_for_no_other(pipeline, spec):
    waits = {name.replace("-", "_"): set(task.dependent_tasks) for name, task in spec.root.dag.tasks.items()}
    assert waits == {
        stage: {maker.replace("_", "-") for maker in {*inputs.values(), *GATES.get(stage, ())}}
        for stage, inputs in DAGS[pipeline.name].items()
    }


def test_each_stage_gets_its_own_configuration_and_the_run(spec):
    for name, task in spec.root.dag.tasks.items():
        inputs = task.inputs.parameters
        assert inputs["config"].component_input_parameter == f"{name.replace('-', '_')}_config"
        assert inputs["run"].component_input_parameter == "run"


def test_what_people_read_in_the_web_pages_is_there(pipeline, spec, compiled):
    what, stage, name = {
        "rubicap": ("better captioner", "score", "policy"),
        "rlr3": ("better answerer", "score", "peer"),
        "balcaprl": ("more balanced captioner", "score", "exams"),
    }[pipeline.name]
    assert what in compiled.read_text()
    described = spec.components[f"comp-{stage}"].input_definitions.parameters[name].description
    assert described.startswith("URI of ")


def test_nothing_is_installed_when_a_container_starts(compiled):
    assert "pip install" not in compiled.read_text()


def test_a_name_that_is_not_yaml_is_refused_with_advice(tmp_path):
    with pytest.raises(UserError, match=r"rubicap\.txt.*\.yaml"):
        compile_pipeline(rubicap, tmp_path / "rubicap.txt")


def test_a_folder_that_cannot_be_made_is_said_plainly(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write"):
        compile_pipeline(rubicap, tmp_path / "file" / "rubicap.yaml")
