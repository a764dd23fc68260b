"""Stages that load a model, without accelerators on a cluster that has some: told of before anything is paid for."""

import pytest
import yaml

from rubricworks.kubeflow.compile import compile_specs, load_pipeline
from rubricworks.kubeflow.planned_cluster import (
    accelerator_warning,
    idle_accelerator_warning,
    without_idle_accelerators,
)
from rubricworks.recipe.files import load_recipe, recipe_path

POOLS = {"cpu": {}, "h100": {"accelerator": "nvidia.com/gpu"}}
ON_H100 = {"pool": "h100", "accelerators": 1}
LOADING = ("caption_student", "train_policy", "score")
"""Stages of RubiCap that load a model; its warm-up, which has no `sft`, links the student."""


@pytest.fixture
def placed(tmp_path):
    """A recipe, RubiCap by default, with these pools and stages."""

    def placed(pools, stages, recipe="rubicap", *overrides):
        data = yaml.safe_load(recipe_path(recipe).read_text())
        path = tmp_path / "mine.yaml"
        cluster = {"storage": "s3://b", "images": {"pull_policy": "Never"}, "pools": pools, "stages": stages}
        path.write_text(yaml.safe_dump({**data, "cluster": cluster}))
        return load_recipe(path, overrides)

    return placed


@pytest.fixture
def warned(placed):
    return lambda *recipe: accelerator_warning(placed(*recipe))


def test_each_stage_is_named_with_its_field_and_the_pools_that_would_do(warned):
    assert warned(POOLS, {"default": {"pool": "cpu"}, "train_policy": ON_H100}) == (
        "stages that load a model ask for no accelerators and would run on a CPU: set "
        "cluster.stages.caption_student.accelerators, cluster.stages.score.accelerators, and their pool to one that "
        "has accelerators: h100"
    )


def test_where_a_cpu_is_meant_nothing_is_said(warned):
    assert warned({"cpu": {}}, {"default": {"pool": "cpu"}}) == ""
    assert warned(POOLS, {"default": {"pool": "cpu"}}, "rubicap", "warm_up.student=tiny", "warm_up.sft.steps=2") == ""
    assert warned(POOLS, dict.fromkeys(LOADING, ON_H100)) == ""
    assert warned(POOLS, {"default": ON_H100}) == ""


def test_a_stage_that_makes_nothing_by_this_recipe_is_not_named(warned):
    warning = warned(POOLS, {"default": {"pool": "cpu"}}, "balcaprl")
    assert "cluster.stages.train_balcaprl.accelerators" in warning
    assert "peer_rubrics" not in warning


def test_of_a_retraining_it_is_said_that_one_pipeline_alone_will_run(warned):
    warning = warned(POOLS, dict.fromkeys(LOADING, ON_H100), "retrain")
    assert "cluster.stages.train_rlr3.accelerators" in warning
    assert "(only those of the champion's pipeline will run)" in warning
    assert not any(f".{stage}." in warning for stage in LOADING)


def test_compiling_says_it_too(tell, tmp_path, monkeypatch):
    monkeypatch.setattr("rubricworks.kubeflow.compile.compile_pipeline", lambda *args, **more: None)
    result = tell(
        "pipelines", "compile", recipe_path("rubicap"),
        "--set", "cluster.storage=s3://b", "--set", "cluster.pools.h100.accelerator=nvidia.com/gpu",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert f"would run on a CPU: set cluster.stages.{LOADING[0]}.accelerators" in result.err


def accelerators(recipe) -> dict[str, int]:
    """Stage → accelerators that its compiled task asks for."""
    spec, _ = compile_specs(load_pipeline(recipe.pipeline), without_idle_accelerators(recipe, recipe.cluster))
    executors = spec.deployment_spec["executors"]
    resources = {name: dict(executors[name]["container"]).get("resources", {}) for name in executors}
    return {
        name.removeprefix("exec-").replace("-", "_"): int(resource["accelerator"]["resourceCount"])
        for name, resource in resources.items()
        if "accelerator" in resource
    }


EIGHT = {"pool": "h100", "accelerators": 8, "cpu": 96, "memory": "800Gi", "shared_memory": "64Gi"}
STAGES = {"default": {"pool": "cpu"}, "warm_up": EIGHT, **dict.fromkeys(LOADING, ON_H100)}


def test_a_warm_up_that_links_its_student_holds_no_accelerators(placed):
    recipe = placed(POOLS, STAGES)
    assert idle_accelerator_warning(recipe) == (
        "stages that load no model by this recipe get no accelerators: warm_up (8 asked for)"
    )
    warm_up = without_idle_accelerators(recipe, recipe.cluster).placement("warm_up")
    assert (warm_up.accelerators, warm_up.pool, warm_up.memory, warm_up.shared_memory) == (0, "cpu", "4Gi", None)
    assert "warm_up" not in accelerators(recipe)


def test_a_warm_up_that_trains_has_its_accelerators(placed):
    recipe = placed(POOLS, STAGES, "rubicap", "warm_up.sft.steps=2")
    assert idle_accelerator_warning(recipe) == ""
    assert accelerators(recipe)["warm_up"] == 8
