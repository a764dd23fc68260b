"""BalCapRL's DAG and components, with a stand-in for the stages."""

from pathlib import Path

import pytest
from pipeline_inputs import BALCAPRL as INPUTS
from pipeline_inputs import RLR3 as OF_RLR3
from pipeline_inputs import RUBICAP as OF_RUBICAP
from stage_stand_in import Dag, check_component, check_whole_run
from test_retrain_dag import OWN as OF_RETRAINING

import rubricworks.components
from rubricworks.pipelines.balcaprl import balcaprl
from rubricworks.recipe.cluster import CLUSTER_ONLY
from rubricworks.recipe.files import load_recipe, recipe_path

ON_A_CLUSTER = (*CLUSTER_ONLY, "check_accelerators")


def test_the_whole_pipeline_launches_every_stage_once_with_the_outputs_it_needs(tmp_path, monkeypatch):
    check_whole_run(Dag(balcaprl, INPUTS), tmp_path, monkeypatch)


@pytest.mark.parametrize("stage", sorted(INPUTS.keys() - OF_RUBICAP.keys()))
def test_a_component_takes_and_gives_strings_under_the_names_of_its_stage_and_says_what_they_are(stage, monkeypatch):
    check_component(stage, list(INPUTS[stage]), monkeypatch)


def test_every_component_on_disk_is_a_stage_of_a_pipeline():
    folder = Path(rubricworks.components.__file__).parent
    of_pipelines = OF_RUBICAP.keys() | OF_RLR3.keys() | INPUTS.keys() | OF_RETRAINING | set(ON_A_CLUSTER)
    of_pipelines |= {"train_job"}  # for pipelines of one's own; ours train on several nodes by their recipe
    assert {path.parent.name for path in folder.glob("*/*/component.py")} == of_pipelines


@pytest.mark.parametrize("name", ["balcaprl", "balcaprl-laptop"])
def test_a_recipe_configures_exactly_the_stages_of_its_pipeline(name):
    assert list(load_recipe(recipe_path(name)).stage_configs()) == list(INPUTS)
