"""BalCapRL's pipeline, killed in each stage of its own and resumed, ends as a run that was never stopped."""

import pytest
from kills import continued_after, differing, products, run_with_kills, saved, there
from laptop_recipes import SMALL as RECIPES
from tiny_run import Run, settings

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

SMALL = RECIPES["balcaprl-laptop"]
KILLS = {
    "recap": [("stage", there("recap/samples/part-00001.parquet"))],
    "write_exams": [("run", there("write_exams/exams/part-00001.parquet"))],
    "train_balcaprl": [
        ("stage", saved("train_balcaprl/checkpoint-2")),
        ("everything", saved("train_balcaprl/checkpoint-4")),
    ],
    "score": [("run", there("score/scores/part-00000.parquet"))],
}
MADE = ["prepare", "warm_up", *KILLS]


def test_killed_in_each_of_its_stages_it_ends_as_if_it_had_never_stopped(tmp_path):
    Run(tmp_path / "unbroken", "balcaprl-laptop", *settings(SMALL), "--run", "whole").finish()
    whole = products(tmp_path / "unbroken" / "whole", MADE)
    assert {"train_balcaprl/model/model.safetensors", "score/scores.json"} <= whole.keys()

    folder = tmp_path / "runs" / "cut"
    output = run_with_kills(folder, ["balcaprl-laptop", *settings(SMALL), "--run", "cut"], KILLS)
    assert differing(products(folder, MADE), whole) == []
    assert continued_after("policy", output) == [2, 4]
