"""Pipelines of arms: no stage that speaks for the run is left, and nothing that only such a stage had."""

import pytest
from google.protobuf import json_format
from placed_tasks import cluster_of, table_of, tasks_of

from rubricworks.kubeflow.cluster_pipeline import place_pipeline
from rubricworks.kubeflow.compile import compile_specs, drop_tasks
from rubricworks.pipelines.rubicap import rubicap
from rubricworks.runtime.stage_table import NOT_REUSABLE


@pytest.fixture(scope="module")
def whole():
    return place_pipeline(rubicap, cluster_of("rubicap"))


def test_an_arms_pipeline_is_the_same_but_for_promotion_and_report(whole):
    arm = drop_tasks(whole, NOT_REUSABLE)
    before, after = (table_of(pipeline.pipeline_spec, pipeline.platform_spec) for pipeline in (whole, arm))
    assert set(before) - set(after) == {"promote", "report"}
    assert after == {task: before[task] for task in after}


def test_what_only_they_had_goes_with_them(whole):
    arm = drop_tasks(whole, NOT_REUSABLE)
    spec, platform = (json_format.MessageToDict(spec) for spec in (arm.pipeline_spec, arm.platform_spec))
    labels = {component["executorLabel"] for component in spec["components"].values() if "executorLabel" in component}
    assert labels == set(spec["deploymentSpec"]["executors"])
    assert labels == set(platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"])
    assert not [name for name in labels if "promote" in name or "report" in name]


def test_the_pipeline_itself_stays_as_it_was(whole):
    before = json_format.MessageToDict(whole.pipeline_spec)
    drop_tasks(whole, NOT_REUSABLE)
    assert json_format.MessageToDict(whole.pipeline_spec) == before
    assert {"promote", "report"} <= set(tasks_of(compile_specs(rubicap)[0]))


def test_a_stage_that_another_one_takes_from_cannot_be_left_out(whole):
    with pytest.raises(ValueError, match="takes what was left out"):
        drop_tasks(whole, {"train_policy"})
