"""RubiCap's DAG and components, with a stand-in for the stages."""

import pytest
from pipeline_inputs import RUBICAP as INPUTS
from stage_stand_in import Dag, check_component, check_whole_run

from rubricworks.pipelines.rubicap import rubicap


def test_the_whole_pipeline_launches_every_stage_once_with_the_outputs_it_needs(tmp_path, monkeypatch):
    check_whole_run(Dag(rubicap, INPUTS), tmp_path, monkeypatch)


@pytest.mark.parametrize("stage", INPUTS)
def test_a_component_takes_and_gives_strings_under_the_names_of_its_stage_and_says_what_they_are(stage, monkeypatch):
    check_component(stage, list(INPUTS[stage]), monkeypatch)
