"""Stages that load a model, without accelerators on a cluster that has some: told of before anything is paid for."""

import pytest
import yaml

from rubricworks.kubeflow.accelerator_warnings import accelerator_warning
from rubricworks.recipe.files import load_recipe, recipe_path

POOLS = {"cpu": {}, "h100": {"accelerator": "nvidia.com/gpu"}}
ON_H100 = {"pool": "h100", "accelerators": 1}
LOADING = ("warm_up", "caption_student", "train_policy", "score")


@pytest.fixture
def warned(tmp_path):
    """Warning for a recipe, RubiCap by default, with these pools and stages."""

    def warned(pools, stages, recipe="rubicap", *overrides):
        data = yaml.safe_load(recipe_path(recipe).read_text())
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump({**data, "cluster": {"storage": "s3://b", "pools": pools, "stages": stages}}))
        return accelerator_warning(load_recipe(path, overrides))

    return warned


def test_each_stage_is_named_with_its_field_and_the_pools_that_would_do(warned):
    assert warned(POOLS, {"default": {"pool": "cpu"}, "warm_up": ON_H100, "train_policy": ON_H100}) == (
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
    monkeypatch.setattr("rubricworks.kubeflow.compile.compile_pipeline", lambda *args: None)
    result = tell(
        "pipelines", "compile", recipe_path("rubicap"),
        "--set", "cluster.storage=s3://b", "--set", "cluster.pools.h100.accelerator=nvidia.com/gpu",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert f"would run on a CPU: set cluster.stages.{LOADING[0]}.accelerators" in result.err
