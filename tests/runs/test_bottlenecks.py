"""Bottleneck of policy trainings in the plan, by what the steps of earlier runs waited for."""

import json

import pytest

from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.runs.bottlenecks import bottleneck_lines

SECONDS = {"sampler": 0.5, "judge": 1.25, "trainer": 0.75}


@pytest.fixture
def earlier(tmp_path):
    def write(name, seconds, *, recipe="quickstart", arm=None, stage="train_policy"):
        run = tmp_path / name
        run.mkdir()
        (run / "recipe.yaml").write_text(json.dumps({"name": recipe, **({"arm": arm} if arm else {})}))
        lines = [{"stage": "prepare", "seconds": 1.0}, {"stage": stage, "seconds": 9.0, "step_seconds": seconds}]
        (run / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"stage": "tr')

    return write


def lines(runs, **options):
    return list(bottleneck_lines(load_recipe(recipe_path("quickstart"), (), **options), runs))


@pytest.mark.parametrize("slowest", ["sampler", "judge", "trainer"])
def test_the_slowest_part_of_a_measured_step_is_named(tmp_path, earlier, slowest):
    earlier("run-1", SECONDS | {slowest: 2.5})
    [line] = lines(tmp_path)
    assert line.startswith(f"bottleneck of train_policy: the {slowest}; of a step of run-1, sampling ")
    assert "2.5 s" in line


def test_every_part_is_shown_with_its_seconds(tmp_path, earlier):
    earlier("run-1", SECONDS)
    [line] = lines(tmp_path)
    assert line.endswith("of a step of run-1, sampling 0.5 s, waiting for the judge 1.2 s, the update 0.75 s")


@pytest.mark.parametrize(
    "other",
    [
        {"recipe": "another"},
        {"arm": "greedy"},
        {"stage": "train_rlvr"},
        {"seconds": {"sampler": 1.0}},
        {"seconds": None},
    ],
    ids=["recipe", "arm", "stage", "part", "none"],
)
def test_without_a_measured_run_of_the_recipe_nothing_is_named(tmp_path, earlier, other):
    earlier("run-1", other.pop("seconds", SECONDS), **other)
    [line] = lines(tmp_path)
    assert line == (
        f"bottleneck of train_policy: not known, because no run of quickstart in {tmp_path} has measured its steps"
    )
