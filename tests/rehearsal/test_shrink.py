"""A recipe in miniature: what becomes small, what stays, and how many processes train it."""

import pytest

from rubricworks.recipe.files import built_in_recipes, load_recipe, recipe_path
from rubricworks.rehearsal.shrink import processes_of, shrink

CLUSTER = (
    "cluster={{storage: s3://b/runs, pools: {{h: {{accelerator: nvidia.com/gpu}}}}, "
    "stages: {{train_policy: {{pool: h, accelerators: {count}}}}}}}"
)
LORA = "policy.algorithm.optimizer.lora={rank: 4}"
FULL_SIZE = [
    path.stem for path in built_in_recipes() if "laptop" not in path.stem and path.stem not in ("quickstart", "retrain")
]


@pytest.mark.parametrize(
    ("recipe", "overrides", "processes", "reason"),
    [
        ("rubicap", [], 2, ""),
        ("rubricrl-diffusion", [], 2, ""),
        ("rubicap", [CLUSTER.format(count=8)], 2, ""),
        ("rubicap", [CLUSTER.format(count=1)], 1, ""),
        ("rubicap", [LORA], 1, "optimizer.lora of train_policy needs the policy whole"),
        ("rubicap", [LORA, CLUSTER.format(count=8)], 2, ""),
        ("one-endpoint", [], 1, "optimizer.lora of train_policy needs the policy whole"),
    ],
)
def test_trainings_have_two_processes_unless_the_recipe_has_one(recipe, overrides, processes, reason):
    count, notes = processes_of(load_recipe(recipe_path(recipe), overrides))
    assert count == processes
    assert [note.reason for note in notes] == ([f"one process for each training: {reason}"] if reason else [])


@pytest.mark.parametrize("name", FULL_SIZE)
def test_every_arm_of_every_recipe_has_a_miniature_with_the_same_stages(name):
    for arm in (None, *load_recipe(recipe_path(name)).arms):
        recipe = load_recipe(recipe_path(name), arm=arm)
        small = shrink(recipe, {}, {}, lambda kind: f"http://127.0.0.1:1/{kind}").recipe
        assert small.stage_names() == recipe.stage_names()
        assert {url for _, endpoint in small.endpoints() for url in endpoint.urls} <= {"http://127.0.0.1:1/chat"}


def test_options_that_decide_which_code_runs_stay():
    recipe = load_recipe(recipe_path("balcaprl"))
    small = shrink(recipe, {}, {}, lambda kind: f"http://127.0.0.1:1/{kind}").recipe
    for field in ("loss", "advantages", "delta", "beta", "type"):
        assert getattr(small.policy.algorithm, field) == getattr(recipe.policy.algorithm, field)
    assert small.policy.algorithm.optimizer.precision == "mixed"
    assert small.policy.reward.length == recipe.policy.reward.length
    assert (small.policy.algorithm.rollouts.group_size, small.policy.algorithm.rollouts.prompts_per_step) == (4, 2)
    assert small.evaluation.max_new_tokens == 16
