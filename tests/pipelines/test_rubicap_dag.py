"""RubiCap's DAG and components, with a stand-in for the stages."""

import pytest
from stage_stand_in import Dag, check_component, check_whole_run

from rubricworks.pipelines.rubicap import rubicap

INPUTS = {
    "prepare": {},
    "warm_up": {"samples": "prepare"},
    "caption_committee": {"samples": "prepare"},
    "caption_student": {"samples": "prepare", "model": "warm_up"},
    "synthesize_rubrics": {
        "samples": "prepare",
        "captions": "caption_committee",
        "student_captions": "caption_student",
    },
    "train_policy": {
        "samples": "prepare",
        "rubrics": "synthesize_rubrics",
        "model": "warm_up",
        "captions": "caption_committee",
    },
    "evaluate": {
        "samples": "prepare",
        "rubrics": "synthesize_rubrics",
        "model": "warm_up",
        "policy": "train_policy",
    },
    "promote": {"evaluations": "evaluate", "policy": "train_policy", "samples": "prepare"},
    "report": {"promotion": "promote"},
}


def test_the_whole_pipeline_launches_every_stage_once_with_the_outputs_it_needs(tmp_path, monkeypatch):
    check_whole_run(Dag(rubicap, INPUTS), tmp_path, monkeypatch)


@pytest.mark.parametrize("stage", INPUTS)
def test_a_component_takes_and_gives_strings_under_the_names_of_its_stage_and_says_what_they_are(stage, monkeypatch):
    check_component(stage, list(INPUTS[stage]), monkeypatch)
