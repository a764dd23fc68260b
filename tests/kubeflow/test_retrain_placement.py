"""A retraining with a `cluster:` section: its branches are placed as the pipelines that they come from."""

import copy
import json

import pytest
from placed_tasks import CLUSTER, PIPELINES, TABLES, TRAINED_LONGEST, cluster_of, short_table_of, table_of

from rubricworks.kubeflow.compile import compile_specs
from rubricworks.pipelines.retrain import retrain
from rubricworks.recipe import ClusterConfig


@pytest.fixture(scope="module")
def table():
    return table_of(*compile_specs(retrain, cluster_of("retrain")))


def stage(row):
    return row["kubernetes"]["podMetadata"]["labels"]["rubricworks.dev/stage"]


def test_each_task_waits_for_and_may_take_what_the_recipe_says(table):
    """`placed_tasks.py` writes the table anew, and a person reads the difference."""
    assert short_table_of(table) == json.loads((TABLES / "retrain.json").read_text())


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_stage_is_placed_as_in_the_pipeline_of_its_branch(pipeline, table):
    own = {stage(row): row for row in json.loads((TABLES / f"{pipeline}.json").read_text()).values()}
    shared = {task: row for task, row in table.items() if stage(row) in own}
    assert {TRAINED_LONGEST[pipeline], "warm_up", "preflight", "outcome"} < {stage(row) for row in shared.values()}
    for task, row in shared.items():
        assert {**row, "after": []} == {**own[stage(row)], "after": []}, task


def test_branches_reserve_nothing_before_they_are_taken(table):
    on_gpus = {task for task, row in table.items() if "accelerator" in row["resources"]}
    trainings = {"warm_up", "train_policy", "train_rlr3", "train_balcaprl"}
    assert {stage(table[task]) for task in on_gpus} == trainings | {"check_accelerators"}
    spec, _ = compile_specs(retrain, cluster_of("retrain"))
    for name, component in spec.components.items():
        checks = [task for task in component.dag.tasks if task.startswith("check-accelerators")]
        assert len(checks) == (1 if name.startswith("comp-condition") else 0), name


def test_the_check_of_a_branch_is_told_what_the_champions_recipe_needs():
    spec, _ = compile_specs(retrain, cluster_of("retrain"))
    for name, component in spec.components.items():
        if name.startswith("comp-condition"):
            (check,) = [spec for task, spec in component.dag.tasks.items() if task.startswith("check-accelerators")]
            told = check.inputs.parameters["config"].component_input_parameter
            assert told == "pipelinechannel--find-new-samples-configs"


def test_the_accelerators_of_what_always_runs_are_looked_at_before_it():
    cluster = copy.deepcopy(CLUSTER)
    cluster["stages"] |= {"find_new_samples": {"pool": "h100", "accelerators": 2}}
    table = table_of(*compile_specs(retrain, ClusterConfig.model_validate(cluster)))
    checks = [task for task in table if task.startswith("check-accelerators")]
    (check,) = [task for task in checks if table[task]["after"] == ["preflight"]]
    assert table[check]["resources"]["accelerator"]["resourceCount"] == "1"
    assert check in table["find-new-samples"]["after"]
    assert not [task for task, row in table.items() if check in row["after"] and task != "find-new-samples"]
