"""Mistakes that full size alone refuses, found by arithmetic."""

import pytest

from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.recipe.models import loaded_models
from rubricworks.rehearsal.full_size import full_size_problems
from rubricworks.rehearsal.shapes import published_shape

STUDENT = "Qwen/Qwen2.5-VL-7B-Instruct@cc594898137f460bfe9f0759e9844b3ce807cfb5"
SMALL_DISK = (
    "cluster={storage: s3://b/runs, pools: {h: {accelerator: nvidia.com/gpu}}, workspace: {size: 50Gi}, "
    "stages: {train_policy: {pool: h, accelerators: 8}}}"
)


def problems(name: str, *overrides: str) -> list[str]:
    recipe = load_recipe(recipe_path(name), overrides)
    fields = loaded_models(recipe)
    shapes = {model: shape for model in fields.values() if (shape := published_shape(model))}
    return list(full_size_problems(recipe, fields, shapes))


@pytest.mark.parametrize("name", ["rubicap", "balcaprl", "rlr3", "recaption-pretrain", "rubricrl-diffusion"])
def test_the_recipes_of_full_size_have_none(name):
    assert problems(name) == []


@pytest.mark.parametrize(
    ("field", "parallel", "reason"),
    [
        ("policy.algorithm.rollouts.vllm", 3, "does not divide num_attention_heads of " + STUDENT + ", 28"),
        ("student.engine", 8, "does not divide num_attention_heads of " + STUDENT + ", 28"),
        ("student.engine", 7, "does not divide num_key_value_heads of " + STUDENT + ", 4"),
    ],
)
def test_gpus_that_do_not_divide_the_heads_are_named(field, parallel, reason):
    assert problems("rubicap", f"{field}.tensor_parallel={parallel}") == [
        f"{field}.tensor_parallel is {parallel}, which {reason}"
    ]


def test_a_multiple_of_the_heads_with_keys_is_no_mistake():
    assert problems("balcaprl", "evaluation.engine.tensor_parallel=8") == [], "2 groups, each on four GPUs"


def test_a_workspace_below_the_checkpoints_is_named():
    (problem,) = problems("rubicap", SMALL_DISK)
    assert problem.startswith("workspaces that will fill up: train_policy takes about 417Gi and has 50Gi;")
