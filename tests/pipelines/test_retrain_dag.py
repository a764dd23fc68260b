"""The retraining's DAG: which branch runs, what its stages are given, and that it fits the pipelines it retrains."""

import json

import pytest
from pipeline_inputs import RUBICAP as OF_RUBICAP
from stage_stand_in import component_of, run_through

from rubricworks.kubeflow.arguments import pipeline_arguments
from rubricworks.kubeflow.compile import compile_specs
from rubricworks.methods.retrain.recipe import RetrainRecipe
from rubricworks.pipelines.retrain import retrain

OWN = {"find_new_samples", "fetch_champion", "challenge"}
CONFIGS = {stage: json.dumps({"stage": stage}) for stage in ("find_new_samples", "fetch_champion", "challenge")}
HANDED = json.dumps({"stages": {"prepare": {"source": 'it\'s "here"', "sizes": [8, 0.5]}}})

BRANCHES = {
    "rubicap": {
        **{stage: inputs for stage, inputs in OF_RUBICAP.items() if stage not in ("promote", "report", "score")},
        "score": {**OF_RUBICAP["score"], "model": "fetch_champion"},
        "challenge": {"scores": "score", "policy": "train_policy", "samples": "prepare"},
    },
    "balcaprl": {
        "prepare": {},
        "recap": {"samples": "prepare"},
        "warm_up": {"samples": "prepare"},
        "write_exams": {"samples": "prepare"},
        "peer_rubrics": {"samples": "prepare", "model": "warm_up"},
        "train_balcaprl": {"samples": "recap", "model": "warm_up", "rubrics": "peer_rubrics"},
        "score": {
            "samples": "recap",
            "exams": "write_exams",
            "model": "fetch_champion",
            "policy": "train_balcaprl",
        },
        "challenge": {"scores": "score", "policy": "train_balcaprl", "samples": "prepare"},
    },
    "rlr3": {
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
        "train_rlr3": {
            "samples": "open_questions",
            "rubrics": "write_checklists",
            "filtered": "offline_filter",
            "model": "warm_up",
            "genrm": "fetch_champion",
        },
        "score": {"samples": "open_questions", "model": "fetch_champion", "policy": "train_rlr3"},
        "challenge": {
            "scores": "score",
            "policy": "score",
            "samples": "prepare_questions",
        },
    },
}


def launched(pipeline, folder, monkeypatch):
    monkeypatch.setenv("HANDED_ON", json.dumps({"pipeline": pipeline, "configs": HANDED}))
    run = folder / "run"
    return run, run_through(retrain, pipeline_arguments(str(run), CONFIGS), run, monkeypatch)


def test_with_too_little_new_only_the_look_is_taken(tmp_path, monkeypatch):
    _, calls = launched("none", tmp_path, monkeypatch)
    assert [call["stage"] for call in calls] == ["find_new_samples"]


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", BRANCHES)
def test_champions_stages_run_with_its_configurations_as_the_base(pipeline, tmp_path, monkeypatch):
    run, calls = launched(pipeline, tmp_path, monkeypatch)
    inputs = {call["stage"]: {name: uri for name, uri in call["inputs"].items() if uri} for call in calls}
    results = {"found": f"{run}/find_new_samples"}
    expected = {
        stage: {name: f"{run}/{maker}" for name, maker in inputs.items()}
        for stage, inputs in BRANCHES[pipeline].items()
    }
    expected["challenge"] |= results
    assert inputs == {"find_new_samples": {}, "fetch_champion": results, **expected}
    assert len(calls) == len(inputs)
    for call in calls:
        assert call["config"] == (CONFIGS[call["stage"]] if call["stage"] in OWN else HANDED)


def test_the_recipe_knows_every_stage_that_may_run():
    pipeline, _ = compile_specs(retrain)
    labels = {label.removeprefix("exec-").rstrip("-0123456789") for label in _executors(pipeline)}
    recipe = RetrainRecipe(name="mine", pipeline="retrain")
    # `train_rlr3` ends in a digit of its own.
    assert {stage.replace("_", "-").rstrip("-0123456789") for stage in recipe.stage_names()} == labels
    assert list(recipe.stage_configs()) == ["find_new_samples", "fetch_champion", "challenge"]


def _executors(pipeline):
    from google.protobuf import json_format

    return json_format.MessageToDict(pipeline.deployment_spec)["executors"]


def test_the_look_gives_the_pipeline_as_its_output_which_local_conditions_can_read():
    outputs = component_of("find_new_samples").component_spec.outputs
    assert {name: output.type for name, output in outputs.items()} == {
        "Output": "String",
        "found": "String",
        "configs": "String",
        "view": "system.HTML@0.0.1",
        "metrics": "system.Metrics@0.0.1",
    }
