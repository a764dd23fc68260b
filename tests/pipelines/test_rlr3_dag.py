"""RLR³'s DAG and components, with a stand-in for the stages."""

import pytest
from stage_stand_in import Dag, check_component, check_whole_run
from test_rubicap_dag import INPUTS as OF_RUBICAP

from rubricworks.pipelines.rlr3 import rlr3
from rubricworks.recipe_file import load_recipe, recipe_path

TRAINED_ON = {
    "samples": "open_questions",
    "rubrics": "write_checklists",
    "filtered": "offline_filter",
    "model": "warm_up",
}
INPUTS = {
    "prepare_questions": {},
    "open_questions": {"samples": "prepare_questions"},
    "warm_up": {"samples": "open_questions"},
    "write_checklists": {"samples": "open_questions"},
    "offline_filter": {
        "questions": "prepare_questions",
        "samples": "open_questions",
        "rubrics": "write_checklists",
        "model": "warm_up",
    },
    "genrm_data": {"samples": "open_questions", "rubrics": "write_checklists", "model": "warm_up"},
    "train_genrm": {"genrm_data": "genrm_data"},
    "audit": {"genrm_data": "genrm_data", "samples": "open_questions"},
    # Both arms read the same: what differs is the reward.
    "train_rlvr": TRAINED_ON,
    "train_rlr3": TRAINED_ON,
    "evaluate_answers": {
        "samples": "open_questions",
        "model": "warm_up",
        "rlvr": "train_rlvr",
        "rlr3": "train_rlr3",
    },
    "promote": {"evaluations": "evaluate_answers", "policy": "evaluate_answers", "samples": "prepare_questions"},
    "rlr3_report": {"promotion": "promote", "audit": "audit", "genrm": "train_genrm"},
}


def test_the_whole_pipeline_launches_every_stage_once_with_the_outputs_it_needs(tmp_path, monkeypatch):
    check_whole_run(Dag(rlr3, INPUTS), tmp_path, monkeypatch)


@pytest.mark.parametrize("stage", sorted(INPUTS.keys() - OF_RUBICAP.keys()))
def test_a_component_takes_and_gives_strings_under_the_names_of_its_stage_and_says_what_they_are(stage, monkeypatch):
    check_component(stage, list(INPUTS[stage]), monkeypatch)


def test_a_recipe_configures_exactly_the_stages_of_its_pipeline():
    assert list(load_recipe(recipe_path("rlr3-laptop")).stage_configs()) == list(INPUTS)
    assert list(load_recipe(recipe_path("quickstart")).stage_configs()) == list(OF_RUBICAP)
