"""A budget that the plan exceeds is told of before anything is paid for, wherever a run begins."""

import pytest
import yaml
from kubeflow_api import FakeKubeflow
from policy_sections import rubric_policy

from rubricworks.errors import UserError
from rubricworks.recipe.estimate import budget_warning, estimate_calls
from rubricworks.recipe.files import load_recipe, recipe_path

PRICED = {"url": "http://127.0.0.1:9/v1", "model": "teacher", "prices": [1.0, 10.0]}
FREE = {"url": "http://127.0.0.1:9/v1", "model": "ours"}
DOLLARS = "warning: the plan comes to about $0.12, and budget.dollars is 0.05: the run would stop there"


@pytest.fixture
def recipe(tell, tmp_path):
    """Ten images and three captions of each, of 1,000 tokens in and 300 out: $0.12; returns the recipe's file."""
    (tmp_path / "images").mkdir()
    for number in range(10):
        (tmp_path / "images" / f"{number}.png").touch()
        with (tmp_path / "images" / "metadata.jsonl").open("a") as captions:
            captions.write(f'{{"file_name": "{number}.png", "text": "a picture"}}\n')
    path = tmp_path / "mine.yaml"
    content = {
        "name": "mine",
        "data": {"source": str(tmp_path / "images"), "held_out": 4},
        "warm_up": {"student": "tiny", "sft": {"steps": 2}},
        "committee": {"teachers": [PRICED], "captions_each": 3},
        "rubric": {"writer": FREE},
        "policy": rubric_policy(FREE, steps=5, prompts_per_step=2, group_size=4),
        "evaluation": {"scorers": {"rubric": {"judge": FREE}, "arena": {"judge": FREE}}},
        "prices": {"ours": [0, 0]},
        "promotion": {"gate": {"samples_at_least": 4}},
    }
    path.write_text(yaml.safe_dump(content))
    return path


def test_a_plan_above_a_cap_is_told_of_by_a_dry_run_and_before_a_run(tell, recipe):
    assert "warning" not in tell("run", recipe, "--dry-run", "--set", "budget.dollars=0.13").out
    assert DOLLARS in tell("run", recipe, "--dry-run", "--set", "budget.dollars=0.05").out
    # Nothing answers there, so it ends with that; the warning is the first that it says.
    result = tell("run", recipe, "--set", "budget.dollars=0.05")
    assert result.err.startswith(DOLLARS)
    assert "\nerror: endpoint" in result.err


def test_each_cap_that_is_exceeded_is_named_and_what_to_do(tell, recipe):
    result = tell("run", recipe, "--dry-run", "--set", "budget.dollars=0.05", "--set", "budget.tokens=5000").out
    (line,) = [line for line in result.splitlines() if line.startswith("warning")]
    assert "tokens, and budget.tokens is 5,000" in line
    assert "Raise budget.dollars and budget.tokens, or do less; --dry-run shows what each stage takes" in line


def test_what_is_pushed_to_kubeflow_is_held_against_its_budget(tell, recipe, monkeypatch, tmp_path):
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "no-token"))
    with FakeKubeflow(version="2.17.0") as fake:
        monkeypatch.setenv("RUBRICWORKS_KUBEFLOW", fake.url)
        result = tell(
            *("pipelines", "push", recipe, "--set", "budget.dollars=0.05", "--set", "cluster.storage=s3://runs/x"),
            *("--set", "cluster.images.pull_policy=Never"),
        )
    assert result.code == 0, result.err
    assert DOLLARS in result.err


def test_where_the_samples_cannot_be_counted_it_says_that_nobody_knows(recipe):
    warning = budget_warning(load_recipe(recipe, ["budget.tokens=1", "data.source=gone"]))
    assert warning.startswith("the plan was not held against the budget, since its samples cannot be counted here")
    assert "gone: no such file" in warning


def test_without_a_cap_and_of_a_retraining_nothing_is_said(recipe):
    assert budget_warning(load_recipe(recipe, ["data.source=gone"])) == ""
    assert budget_warning(load_recipe(recipe_path("retrain"), ["budget.tokens=1"])) == ""


def test_calls_of_a_retraining_are_refused_in_words():
    with pytest.raises(UserError, match="the calls of pipeline retrain are not known before a run"):
        estimate_calls(load_recipe(recipe_path("retrain")), 100)
