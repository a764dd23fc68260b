"""Recipes of the RLR³ pipeline as users meet them: listed, planned, mistaken, priced, continued."""

import json
from pathlib import Path

import pytest
import yaml
from questions_recipe import RECIPE

from rubricworks.llm import Endpoint
from rubricworks.recipe import Recipe
from rubricworks.recipe.files import built_in_recipes, load_recipe, recipe_path

PRICES = "prices:\n  judge: [1.0, 2.0]\n"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(RECIPE)
    return path


def test_the_laptop_recipe_is_listed_with_what_it_is(tell):
    listed = tell("recipes", "list").out.splitlines()
    (line,) = [line for line in listed if line.startswith("rlr3-laptop ")]
    assert "simulated judges, real small models" in line


def test_a_dry_run_counts_every_call_of_the_laptop_recipe_and_runs_nothing(tell, tmp_path):
    small = [
        "world.scenes=300",
        "data.held_out=60",
        "data.warm_up=200",
        "data.max_train=100",
        "policy.algorithm.steps=40",
    ]
    small += ["genrm_data.responses_each=3", "genrm_data.samples=30", "genrm_data.test=300"]
    result = tell("run", "rlr3-laptop", "--dry-run", *(part for item in small for part in ("--set", item)))
    assert result.code == 0, result
    calls = {
        (f[0], f[3]): int(f[1].replace(",", "")) for line in result.out.splitlines() if len(f := columns(line)) > 4
    }
    read = 100 + 60
    assert calls == {
        ("open_questions", "question-opener"): round(read * 0.35),
        **{("write_checklists", f"checklist-writer-{number}"): read for number in (1, 2, 3)},
        ("write_checklists", "checklist-merger"): read,
        ("write_checklists", "scorer"): read,
        ("offline_filter", "scorer"): 100 * 8,
        **{("genrm_data", f"scorer-{number}"): 30 * 3 for number in (1, 2, 3)},
        ("audit", "red-teamer"): 2,
        # Four failure modes, each response about twice; and the red team's patterns on 32 inputs.
        ("audit", "abnormal-writer"): 2 * 4 * 40 + 2 * 3 * 32,
        **{("audit", f"quality-judge-{number}"): 2 * 4 * 40 + 2 * 3 * 32 for number in (1, 2)},
        ("audit", "weak-scorer"): 4 * (4 * 40 + 300) + 2 * 3 * 32,
        ("train_rlr3", "scorer"): 40 * 8 * 8,
        # The base, and both arms at steps 20 and 40; half of the questions are open.
        ("score", "answer-judge"): 5 * 60 // 2,
    }
    stages = ["prepare_questions", "warm_up", "train_genrm", "train_rlvr", "promote", "rlr3_report"]
    assert all(any(line.split()[:2] == [stage, "-"] for line in result.out.splitlines()) for stage in stages)
    assert "rlr3-laptop: rlr3 on 600 questions, 60 of them held out" in result.out
    assert "the scene world, simulated" in result.out
    assert not (tmp_path / "runs").exists()


def columns(line: str) -> list[str]:
    """Stage, calls, purpose, model and tokens of a line of the plan; a purpose may be two words."""
    parts = line.replace("red team", "red-team").split()
    return parts if len(parts) > 4 and parts[1].replace(",", "").isdigit() else []


def test_every_endpoint_of_every_recipe_is_found_once_for_each_place_that_names_it(path):
    for source in [*built_in_recipes(), path]:
        recipe = load_recipe(source)
        result = recipe.endpoints()
        assert {where: endpoint.model for where, endpoint in result} == dict(
            places(recipe.model_dump(mode="json", exclude={"arms"}))
        )
        for where, endpoint in result:
            place = recipe
            for part in where.split("."):
                if isinstance(place, dict):
                    place = place[part]
                else:
                    place = place[int(part)] if part.isdigit() else getattr(place, part)
            assert place is endpoint
            assert isinstance(endpoint, Endpoint)
    assert len(result) == 15


def places(value, where=""):
    """Endpoints by brute force: every mapping with a URL and a model."""
    if isinstance(value, dict):
        if {"url", "model"} <= value.keys():
            yield where, value["model"]
        for name, inner in value.items():
            yield from places(inner, f"{where}.{name}".lstrip("."))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from places(inner, f"{where}.{number}")


def test_price_table_reaches_every_endpoint_without_a_price_of_its_own(path):
    text = RECIPE.replace("model: second}", "model: second, prices: [7.0, 1.0]}") + PRICES + "  second: [1, 1]\n"
    path.write_text(text)
    priced = {where: endpoint.prices for where, endpoint in load_recipe(path).endpoints() if endpoint.is_priced}
    assert priced == {
        "filter.judge": (1.0, 2.0),
        "audit.judge": (1.0, 2.0),
        "policy.reward.judge.of.0": (1.0, 2.0),
        "policy.reward.judge.of.1": (7.0, 1.0),
    }


def test_dollars_can_be_capped_where_all_prices_are_known_be_they_nothing(path):
    free = {name: [0, 0] for _, name in places(yaml.safe_load(RECIPE))}
    path.write_text(RECIPE + yaml.safe_dump({"prices": free, "budget": {"dollars": 5}}))
    assert load_recipe(path).budget.dollars == 5


def test_the_genrm_is_asked_without_a_thinking_part_as_it_is_trained():
    asked = [endpoint for _, endpoint in load_recipe(recipe_path("rlr3")).endpoints() if endpoint.serve]
    assert len(asked) >= 4
    assert all(request.extra_body == {"chat_template_kwargs": {"enable_thinking": False}} for request in asked)


@pytest.mark.parametrize(("name", "arm", "audited"), [("rlr3", None, True), ("rlr3-laptop", "genrm", False)])
def test_the_policy_is_rewarded_by_the_genrm_that_the_run_trains(name, arm, audited):
    recipe = load_recipe(recipe_path(name), arm=arm)
    judge = recipe.policy.reward.judge
    assert judge.serve.stage == "train_genrm"
    assert (recipe.audit.judge.serve == judge.serve) is audited
    assert (recipe.audit.false_positives_at_most is not None) is audited


@pytest.mark.parametrize(("arm", "prompt", "response"), [(None, 2048, 6144), ("deepvision", 4096, 12288)])
def test_all_lengths_of_an_arm_are_the_papers_and_fit_into_their_engines(arm, prompt, response):
    """Section 5.1: 2K and 6K tokens, and 4K and 12K for DeepVision."""
    recipe = load_recipe(recipe_path("rlr3"), arm=arm)
    rollouts = recipe.policy.algorithm.rollouts
    assert recipe.filter.max_prompt_tokens == prompt
    lengths = {
        "filter": recipe.filter.max_new_tokens, "genrm_data": recipe.genrm_data.max_new_tokens,
        "policy": rollouts.max_new_tokens, "evaluation": recipe.evaluation.max_new_tokens,
    }  # fmt: skip
    assert lengths == dict.fromkeys(lengths, response)
    contexts = {
        "filter": recipe.filter.engine, "genrm_data": recipe.genrm_data.engine, "policy": rollouts.vllm,
        "evaluation": recipe.evaluation.engine,
    }  # fmt: skip
    for part, engine in contexts.items():
        assert engine.max_model_length >= prompt + response, part
    # The GenRM reads question, response and checklist, some thousand tokens, and writes its execution.
    scorer = recipe.genrm.rlvr.rollouts
    assert scorer.vllm.max_model_length >= prompt + response + scorer.max_new_tokens + 2048


def test_both_arms_are_trained_the_same_and_only_one_has_a_judge(path):
    recipe = load_recipe(path, ["policy.algorithm.optimizer.learning_rate=0.5", "seed=9"])
    rlvr, rlr3 = (json.loads(recipe.stage_json()[stage]) for stage in ("train_rlvr", "train_rlr3"))
    assert (rlvr["reward"], rlr3["reward"]["type"]) == ({"type": "answer"}, "checklist")
    assert rlvr["algorithm"] == rlr3["algorithm"]
    assert (rlvr["algorithm"]["optimizer"]["learning_rate"], rlvr["seed"]) == (0.5, 9)


def test_a_recipe_as_it_is_saved_with_a_run_says_the_same_and_takes_another_override(path, tmp_path):
    recipe = load_recipe(path, ["policy.reward.remap=false"])
    saved = save(recipe, tmp_path / "run")
    assert load_recipe(saved) == recipe
    other = load_recipe(saved, ["evaluation.scorers.answers.judge.model=other"])
    changed = {stage for stage, config in other.stage_json().items() if config != recipe.stage_json()[stage]}
    # All that is done before it stays; promotion tells the registry of all.
    assert changed == {"score", "promote"}


def save(recipe: Recipe, run: Path) -> Path:
    """Save a recipe as a run keeps it."""
    run.mkdir(parents=True)
    saved = run / "recipe.yaml"
    saved.write_text(yaml.safe_dump(recipe.model_dump(mode="json", exclude_defaults=True)))
    return saved


def test_resuming_with_a_wrong_override_or_name_is_refused(tell, tmp_path):
    run = tmp_path / "runs" / "mine"
    save(load_recipe(recipe_path("rlr3-laptop"), ["policy.algorithm.steps=100"]), run)
    result = tell("run", "--resume", "mine", "--set", "policy.algorithm.milestone_every=30")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert result.err.startswith(
        "error: --set policy.algorithm.milestone_every=30: policy.algorithm.milestone_every 30 does not divide"
    )
    assert "policy.algorithm.milestone_every 30 does not divide policy.algorithm.steps 100" in result.err
    assert "there are mine" in tell("run", "--resume", "other").err
    planned = tell("run", "--resume", "mine", "--set", "policy.algorithm.steps=20", "--dry-run")
    assert planned.code == 0
    assert ["train_rlr3", "1,280"] in [line.split()[:2] for line in planned.out.splitlines()]
    assert sorted(path.name for path in run.iterdir()) == ["recipe.yaml"]


def test_doctor_says_what_is_missing_for_questions_and_endpoints(tell, path, tmp_path):
    result = tell("doctor", path)
    assert result.code == 2
    wrong = [line for line in result.out.splitlines() if line.startswith("fix")]
    assert any("questions.parquet: no such file" in line for line in wrong)
    # One line for each different endpoint, not for each place that names it.
    assert sum("cannot connect" in line for line in wrong) == len(
        {endpoint.model for _, endpoint in load_recipe(path).endpoints()}
    )
