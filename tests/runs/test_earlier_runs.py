"""What comparable finished runs of a recipe spent, beside the plan of the next one."""

import json
from pathlib import Path

import pytest
import yaml

from rubricworks.llm.spending import SPENDING_FILE, merge_spending
from rubricworks.recipe import Recipe
from rubricworks.recipe.cluster_configs import recipe_yaml
from rubricworks.recipe.estimate import estimate_calls
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.runs.earlier_runs import spent_lines

STEPS = "policy.algorithm.steps=100"


def priced(model: str = "judge", price: float = 1.0, *changes: str) -> Recipe:
    endpoint = f"{{url: 'http://localhost:1/v1', model: {model}, api_key_env: null, prices: [{price}, {price}]}}"
    fields = (
        "rubric.writer",
        "policy.reward.judge",
        "evaluation.scorers.rubric.judge",
        "evaluation.scorers.arena.judge",
    )
    changed = [*(f"{field}={endpoint}" for field in fields), f"committee.teachers=[{endpoint}]", *changes]
    return load_recipe(recipe_path("one-endpoint"), ["data.source=photos", *changed])


@pytest.fixture(autouse=True)
def _photos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    for number in range(60):
        Path(f"photos/{number}.jpg").touch()


@pytest.fixture
def earlier(tmp_path):
    """Writes a run of a recipe, whose every kind of call was made `calls` times, at `cost` dollars each kind."""

    def write(name: str, recipe: Recipe, calls: int, cost: float, *, finished: bool = True) -> None:
        run = tmp_path / "runs" / name
        run.mkdir(parents=True)
        (run / "recipe.yaml").write_text(recipe_yaml(recipe))
        (run / "ledger.jsonl").write_text(json.dumps({"stage": "prepare", "seconds": 1.0}) + "\n")
        if finished:
            (run / "outcome.json").write_text("{}")
        counts = {"requests": calls, "cached": calls // 2, "seconds": 2.0, "cached_tokens": 0, "errors": {}}
        kinds = {(call.stage, call.purpose, call.endpoint.model) for call in estimate_calls(recipe, 60)}
        rows = [
            {"stage": stage, "purpose": purpose, "model": model, "calls": calls, "prompt_tokens": 10 * calls,
             "completion_tokens": calls, "cost": cost, **counts}
            for stage, purpose, model in kinds
        ]  # fmt: skip
        merge_spending(run / SPENDING_FILE, rows)

    return write


def test_comparable_runs_give_a_range_and_what_they_set_otherwise(tmp_path, earlier):
    earlier("short", priced("judge", 1.0, STEPS), 100, 0.25)
    elsewhere = priced().model_dump_json().replace("localhost:1/", "localhost:2/")  # of no concern
    earlier("long", type(priced()).model_validate_json(elsewhere), 3_000, 1.0)
    assert list(spent_lines(priced(), tmp_path / "runs")) == [
        "used by 2 comparable finished runs: 6,000 to 180,000 tokens in and 600 to 18,000 out in 600 to 18,000 calls "
        "(300 to 9,000 from the cache), $1.50 to $6.00",
        "  set otherwise in some: policy.algorithm.steps",
    ]


def test_runs_of_another_judge_arm_or_end_are_not_comparable(tmp_path, earlier):
    earlier("same", priced(), 100, 0.25)
    earlier("unfinished", priced(), 4_000, 1.0, finished=False)
    earlier("other-judge", priced("another"), 5_000, 1.0)
    arm = yaml.safe_load(recipe_yaml(priced())) | {"arm": "gentle"}
    earlier("arm", priced(), 6_000, 1.0)
    (tmp_path / "runs" / "arm" / "recipe.yaml").write_text(yaml.safe_dump(arm))
    (line,) = spent_lines(priced(), tmp_path / "runs")
    assert line.startswith("used by 1 comparable finished run: 6,000 tokens in and 600 out in 600 calls ")


def test_run_that_cannot_be_read_is_passed_over(tmp_path, earlier):
    earlier("torn", priced(), 100, 0.25)
    (tmp_path / "runs" / "torn" / "recipe.yaml").write_text("name: [")
    assert list(spent_lines(priced(), tmp_path / "runs")) == []


def test_dollars_of_a_model_without_a_price_are_not_known(tmp_path, earlier):
    earlier("free", priced("judge", 0.0), 100, 0.0)
    (line,) = spent_lines(priced("judge", 0.0), tmp_path / "runs")
    assert line.partition(", dollars not known: ")[2] == "no price is known of Qwen/Qwen2.5-VL-72B-Instruct, judge"
    assert "$" not in line


def test_without_a_run_there_is_no_line(tmp_path):
    assert list(spent_lines(priced(), tmp_path / "runs")) == []
