"""Properties of every stage and every pipeline of all methods."""

import importlib
import inspect
from typing import Annotated, get_args, get_origin

import pytest
from kfp.dsl.python_component import PythonComponent
from pipeline_inputs import BALCAPRL, EVALUATE, RECAPTION_PRETRAIN, RLR3, RUBICAP, RUBRICRL
from stage_stand_in import Dag, check_component, check_whole_run

from rubricworks.kubeflow.compile import load_pipeline
from rubricworks.recipe import METHODS
from rubricworks.recipe.files import built_in_recipes, load_recipe
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.stage_table import STAGES

OWN_FORM = {"find_new_samples", "preflight", "outcome"}
"""Components with an output or an input that no other has (test_retrain_dag, test_run_folder, test_outcome)."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "inputs"),
    [
        ("rubicap", RUBICAP),
        ("rlr3", RLR3),
        ("balcaprl", BALCAPRL),
        ("rubricrl", RUBRICRL),
        ("recaption_pretrain", RECAPTION_PRETRAIN),
        ("evaluate", EVALUATE),
    ],
)
def test_the_whole_pipeline_launches_every_stage_once_with_the_outputs_it_needs(method, inputs, tmp_path, monkeypatch):
    check_whole_run(Dag(load_pipeline(method), inputs), tmp_path, monkeypatch)


@pytest.mark.parametrize("stage", STAGES)
def test_stage_module_has_a_configuration_and_a_run(stage):
    config = STAGES[stage].load_config()
    kinds = get_args(get_args(config)[0]) if get_origin(config) is Annotated else (config,)
    assert [kind for kind in kinds if not issubclass(kind, StageConfig)] == []
    assert list(inspect.signature(STAGES[stage].load().run).parameters)[:2] == ["config", "job"]


@pytest.mark.parametrize("stage", STAGES)
def test_view_of_a_stage_can_be_loaded(stage):
    assert all(map(callable, STAGES[stage].load_sections()))


@pytest.mark.parametrize("stage", sorted(STAGES.keys() - OWN_FORM))
def test_component_takes_the_inputs_that_the_stage_table_names(stage, monkeypatch):
    check_component(stage, STAGES[stage].inputs, monkeypatch)


def test_every_component_has_its_line_in_the_stage_table():
    phases = {stage.phase for stage in STAGES.values()}
    modules = {phase: importlib.import_module(f"rubricworks.components.{phase}") for phase in phases}
    components = {
        name: phase
        for phase, module in modules.items()
        for name, value in vars(module).items()
        if isinstance(value, PythonComponent)
    }
    # For pipelines of one's own; ours train on several nodes by their recipe.
    assert components.pop("train_job") == "training"
    assert components == {stage.id: stage.phase for stage in STAGES.values()}


@pytest.mark.parametrize("path", built_in_recipes(), ids=lambda path: path.stem)
def test_recipe_configures_the_stages_of_its_pipeline_in_their_order(path):
    recipe = load_recipe(path)
    parameters = inspect.signature(load_pipeline(recipe.pipeline).pipeline_func).parameters
    assert list(parameters) == ["run", *(f"{stage}_config" for stage in recipe.stage_configs())]


def test_every_method_has_a_recipe_that_comes_with_the_package():
    assert {load_recipe(path).pipeline for path in built_in_recipes()} == METHODS.keys()
