"""The recipe with the paper's settings: what it sets, and where its stages run on a cluster."""

import re

import pytest
from placed_tasks import table_of

from rubricworks.kubeflow.compile import compile_specs
from rubricworks.pipelines.rubricrl import rubricrl
from rubricworks.recipe.files import load_recipe, recipe_path

NAME = "rubricrl-ar"
DIFFUSION = "rubricrl-diffusion"


def test_the_papers_settings():
    recipe = load_recipe(recipe_path(NAME))
    policy = recipe.policy
    assert (
        policy.algorithm.rollouts.group_size,
        policy.algorithm.selection.keep,
        policy.algorithm.selection.strategy,
    ) == (16, 4, "hybrid")
    assert (policy.algorithm.selection.normalise, policy.algorithm.rollouts.guidance, recipe.evaluation.guidance) == (
        "kept",
        1.0,
        7.5,
    )
    assert (recipe.rubric.per_query, recipe.rubric.select, recipe.data.max_train) == (10, 10, 11_000)
    assert recipe.rubric.writer.model == policy.reward.judge.model == "o4-mini"


def test_the_papers_settings_for_flow_matching():
    flux = load_recipe(recipe_path(DIFFUSION))
    assert (flux.policy.algorithm.rollouts.guidance, flux.evaluation.guidance) == (3.5, 3.5)
    assert flux.policy.algorithm.optimizer.lora is not None
    qwen = load_recipe(recipe_path(DIFFUSION), arm="qwen_image")
    assert (qwen.policy.algorithm.rollouts.guidance, qwen.evaluation.guidance) == (1.0, 7.5)
    assert flux.rubric == load_recipe(recipe_path(NAME)).rubric


def test_images_are_evaluated_in_the_precision_and_size_of_the_training():
    """All models alike, whatever their files and pipelines have; what the evaluation names itself holds."""
    given = [
        [],
        ["evaluation.sampling={steps: 28}", "evaluation.precision=auto"],
        ["evaluation.sampling={steps: 28}", "evaluation.precision=float32"],
    ]
    recipes = [load_recipe(recipe_path(DIFFUSION), changes) for changes in given]
    scores = [recipe.stage_configs()["score"] for recipe in recipes]
    assert [(score.sampling.steps, score.sampling.side, score.precision) for score in scores] == [
        (28, 1024, "bfloat16"),
        (28, 512, "bfloat16"),
        (28, 512, "float32"),
    ]
    assert load_recipe(recipe_path(NAME)).stage_configs()["score"].precision == "auto"


def test_no_two_arms_are_the_same_and_all_share_the_rest():
    recipe = load_recipe(recipe_path(NAME))
    stages = [load_recipe(recipe_path(NAME), arm=arm).stage_json() for arm in (None, *recipe.arms)]
    assert len({stage["train_generator"] for stage in stages}) == len(stages)
    shared = {"prepare_prompts", "write_prompt_rubrics", "pretrain_generator", "score"}
    assert all(other[stage] == stages[0][stage] for other in stages for stage in shared)


@pytest.mark.parametrize(("name", "gpus"), [(NAME, "8"), (DIFFUSION, "8")])
def test_on_kubeflow_the_generator_trains_on_the_gpus_of_its_pool(tmp_path, name, gpus):
    text = recipe_path(name).read_text()
    start = text.index("# cluster:")
    (tmp_path / "mine.yaml").write_text(text[:start] + re.sub(r"(?m)^# ?", "", text[start:]))
    cluster = load_recipe(tmp_path / "mine.yaml").cluster
    tasks = table_of(*compile_specs(rubricrl, cluster))
    trained = tasks["train-generator"]
    accelerator = trained["resources"]["accelerator"]
    assert (accelerator["resourceCount"], accelerator["resourceType"]) == (gpus, "nvidia.com/gpu")
    assert trained["env"].get("RUBRICWORKS_ACCELERATORS", "1") == gpus
    assert {"prepare-prompts", "pretrain-generator", "write-prompt-rubrics"} <= set(trained["after"])
    assert tasks["score"]["resources"]["accelerator"]["resourceCount"] == "1"
    for task in ("prepare-prompts", "write-prompt-rubrics", "pretrain-generator", "promote"):
        assert "accelerator" not in tasks[task]["resources"]


@pytest.mark.parametrize("name", [NAME, DIFFUSION])
def test_judges_are_asked_one_criterion_per_call_as_in_the_paper(name):
    recipe = load_recipe(recipe_path(name))
    assert recipe.policy.reward.call_per == "criterion"
    assert recipe.evaluation.scorers.rubric.call_per == "criterion"


def test_held_out_prompts_are_rewritten_once_however_many_images_are_drawn():
    recipe = load_recipe(recipe_path(NAME))
    (rewriting,) = [call for call in recipe.estimate_calls(11_000) if call.purpose == "rewriting"]
    assert rewriting.count == 553
