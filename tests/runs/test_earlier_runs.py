"""What the newest finished run of a recipe spent, beside the plan of the next one."""

import json
import os

import pytest

from rubricworks.llm.spending import SPENDING_FILE, merge_spending
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.runs.earlier_runs import spent_lines


@pytest.fixture
def earlier(tmp_path):
    def write(name, calls, *, recipe="quickstart", finished=True):
        run = tmp_path / name
        run.mkdir()
        (run / "recipe.yaml").write_text(json.dumps({"name": recipe}))
        (run / "ledger.jsonl").write_text('{"stage": "prepare", "seconds": 1.0}\n')
        os.utime(run / "ledger.jsonl", (calls, calls))  # later runs have more calls here
        if finished:
            (run / "outcome.json").write_text("{}")
        counts = {"requests": calls, "cached": 1, "seconds": 2.0, "cached_tokens": 0, "errors": {}}
        rows = [
            {"stage": stage, "purpose": "judge", "model": "m", "calls": calls, "prompt_tokens": 10 * calls,
             "completion_tokens": calls, "cost": 0.25, **counts}
            for stage in ("train_policy", "score")
        ]  # fmt: skip
        merge_spending(run / SPENDING_FILE, rows)

    return write


def test_the_newest_finished_run_of_the_recipe_is_told(tmp_path, earlier):
    earlier("old", 100)
    earlier("new", 3_000)
    earlier("unfinished", 4_000, finished=False)
    earlier("other", 5_000, recipe="another")
    assert list(spent_lines(load_recipe(recipe_path("quickstart"), ()), tmp_path)) == [
        "used by the newest finished run, new: 60,000 tokens in and 6,000 out in 6,000 calls (2 from its cache), $0.50"
    ]


def test_a_copy_of_an_older_run_is_not_the_newest(tmp_path, earlier):
    for name, day in (("newest", 2), ("copied", 1)):
        earlier(name, 100 * day)
        line = {"stage": "score", "seconds": 1.0, "ended": f"2026-03-0{day}T12:00:00+00:00"}
        (tmp_path / name / "ledger.jsonl").write_text(json.dumps(line) + "\n")
    os.utime(tmp_path / "newest" / "ledger.jsonl", (1, 1))
    (line,) = spent_lines(load_recipe(recipe_path("quickstart"), ()), tmp_path)
    assert line.startswith("used by the newest finished run, newest: ")


def test_without_a_run_there_is_no_line(tmp_path):
    assert list(spent_lines(load_recipe(recipe_path("quickstart"), ()), tmp_path)) == []
