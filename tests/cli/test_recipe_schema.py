"""`rubricworks recipes schema`: shipped recipes and their arms are valid by it, impossible ones are not."""

import copy
import json

import pytest
from recipe_schema import schema_errors

from rubricworks.recipe.files import built_in_recipes
from rubricworks.strict_yaml import parse_yaml

JUDGE = {"url": "http://localhost:8000/v1", "model": "judge"}
RUBRIC = {"type": "rubric", "judge": JUDGE}
CAPTIONERS = ["rubicap", "balcaprl"]
"""Recipes of captioners, whose policies have the same rewards and algorithms."""


def read(name: str) -> dict:
    """A recipe of the package as JSON has it."""
    (path,) = [path for path in built_in_recipes() if path.stem == name]
    return json.loads(json.dumps(parse_yaml(path.read_text(encoding="utf-8"), 5_000).value))


def changed(recipe: dict, changes: dict[str, object]) -> dict:
    """A copy of a recipe with other values at `a.b.c`."""
    recipe = copy.deepcopy(recipe)
    for field, value in changes.items():
        *parents, last = field.split(".")
        section = recipe
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value
    return recipe


@pytest.mark.parametrize("name", [path.stem for path in built_in_recipes()])
def test_shipped_recipe_and_each_of_its_arms_is_valid(name):
    recipe = read(name)
    assert schema_errors(recipe) == []
    arms = recipe.get("arms", {})
    assert {arm: errors for arm in arms if (errors := schema_errors(changed(recipe, arms[arm])))} == {}


@pytest.mark.parametrize("name", CAPTIONERS)
@pytest.mark.parametrize(
    ("reward", "unknown"),
    [
        ({"type": "rouge_l", "canary": {"every": 50}}, "canary"),
        ({"type": "rouge_l", "call_per": "criterion"}, "call_per"),
        ({"type": "function", "function": "mine:reward", "judge": JUDGE}, "judge"),
        ({"type": "function", "function": "mine:reward", "noise_correction": {"agreement": "a"}}, "noise_correction"),
        ({"type": "caption_scores", "judge": JUDGE, "refresh": {"every": 5}}, "refresh"),
        ({**RUBRIC, "combine": "median"}, "combine"),
        ({**RUBRIC, "credits": "logprob"}, "credits"),
    ],
)  # fmt: skip
def test_option_of_another_reward_is_refused(name, reward, unknown):
    errors = schema_errors(changed(read(name), {"policy.reward": reward}))
    assert [
        error for error in errors if f"$.policy.reward: Additional properties are not allowed ('{unknown}'" in error
    ]


SERVER = {"vllm": {"mode": "server"}}


@pytest.mark.parametrize(
    ("name", "algorithm", "place", "unknown"),
    [
        ("rubicap", {"type": "sft", "refill": {"rounds": 3}}, "", "refill"),
        ("rubicap", {"type": "sft", "beta": 0.1}, "", "beta"),
        ("balcaprl", {"type": "rewrite_sft", "selection": {"keep": 2}}, "", "selection"),
        ("rlr3", {"type": "grpo", "watch": {"probe": {"judge": JUDGE}}}, ".watch.probe", None),
        ("rubricrl-diffusion", {"type": "diffusion_nft", "rollouts": SERVER}, ".rollouts", "vllm"),
        ("rubricrl-diffusion", {"type": "diffusion_nft", "loss": "dapo"}, "", "loss"),
        ("rubricrl-ar", {"type": "grpo", "rollouts": SERVER}, ".rollouts", "vllm"),
        ("rubricrl-ar", {"type": "grpo", "optimizer": {"lora": {}}}, ".optimizer", "lora"),
        ("rubicap", {"type": "diffusion_nft"}, "", None),
    ],
)  # fmt: skip
def test_option_of_another_algorithm_is_refused(name, algorithm, place, unknown):
    changes = {"policy.reward": None} if "sft" in algorithm["type"] else {}
    errors = schema_errors(changed(read(name), {**changes, "policy.algorithm": algorithm}))
    message = f"Additional properties are not allowed ('{unknown}'" if unknown else ""
    assert [error for error in errors if error.startswith(f"$.policy.algorithm{place}: {message}")], errors


@pytest.mark.parametrize("name", CAPTIONERS)
@pytest.mark.parametrize(
    ("reward", "algorithm"),
    [
        (RUBRIC, {"type": "sft"}),
        (None, {"type": "grpo"}),
        (None, {"type": "rewrite_sft"}),
        ({"type": "rouge_l"}, {"type": "rewrite_sft"}),
    ],
)
def test_reward_that_an_algorithm_does_not_train_on_is_refused(name, reward, algorithm):
    errors = schema_errors(changed(read(name), {"policy.reward": reward, "policy.algorithm": algorithm}))
    assert errors
    assert {error.split(":")[0].removesuffix(".type") for error in errors} == {"$.policy.reward"}


def test_judge_is_one_endpoint_or_a_kind_that_is_named():
    def errors(judge: object) -> list[str]:
        return schema_errors(changed(read("rubicap"), {"policy.reward": {**RUBRIC, "judge": judge}}))

    kinds = (
        {"type": "panel", "of": [JUDGE, JUDGE], "combine": "median"},
        {"type": "logprob", "judge": JUDGE},
        {"type": "cascade", "cheap": JUDGE, "strong": JUDGE, "below": 0.8},
    )
    assert [judge for judge in kinds if errors(judge)] == []
    impossible = (
        [JUDGE, JUDGE],
        {"type": "panel", "of": [JUDGE]},
        {"type": "logprob", "judge": JUDGE, "below": 0.8},
        {"type": "cascade", "cheap": JUDGE},
        {**JUDGE, "combine": "median"},
    )
    assert [judge for judge in impossible if not errors(judge)] == []
