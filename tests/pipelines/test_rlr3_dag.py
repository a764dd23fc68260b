"""RLR³'s DAG and components, with a stand-in for the stages."""

import pytest
from pipeline_inputs import RLR3 as INPUTS
from pipeline_inputs import RUBICAP as OF_RUBICAP
from stage_stand_in import Dag, check_component, check_whole_run

from rubricworks.pipelines.rlr3 import rlr3
from rubricworks.recipe.files import load_recipe, recipe_path


def test_the_whole_pipeline_launches_every_stage_once_with_the_outputs_it_needs(tmp_path, monkeypatch):
    check_whole_run(Dag(rlr3, INPUTS), tmp_path, monkeypatch)


@pytest.mark.parametrize("stage", sorted(INPUTS.keys() - OF_RUBICAP.keys()))
def test_a_component_takes_and_gives_strings_under_the_names_of_its_stage_and_says_what_they_are(stage, monkeypatch):
    check_component(stage, list(INPUTS[stage]), monkeypatch)


def test_a_recipe_configures_exactly_the_stages_of_its_pipeline():
    assert list(load_recipe(recipe_path("rlr3-laptop")).stage_configs()) == list(INPUTS)
    assert list(load_recipe(recipe_path("quickstart")).stage_configs()) == list(OF_RUBICAP)
