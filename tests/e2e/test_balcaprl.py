"""BalCapRL's pipeline, killed in each stage of its own and resumed, ends as a run that was never stopped."""

import pytest
from kills import continued_after, differing, products, run_with_kills, saved, there
from tiny_run import Run, settings

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

SMALL = {
    "world.scenes": 60,
    "data.held_out": 8,
    "data.warm_up": 24,
    "data.shard_size": 16,
    "recap.shard_size": 8,
    "warm_up.sft.steps": 4,
    "warm_up.sft.batch_size": 16,
    "exams.shard_size": 8,
    "policy.steps": 6,
    "policy.save_every": 2,
    "policy.prompts_per_step": 2,
    "policy.group_size": 4,
    "policy.max_new_tokens": 16,
    "policy.learning_rate": 1e-3,
    "evaluation.batch_size": 4,
    "evaluation.max_new_tokens": 16,
}
KILLS = {
    "recap": [("stage", there("recap/part-00001.parquet"))],
    "write_exams": [("run", there("write_exams/part-00001.parquet"))],
    "train_balcaprl": [
        ("stage", saved("train_balcaprl/checkpoint-2")),
        ("everything", saved("train_balcaprl/checkpoint-4")),
    ],
    "score": [("run", there("score/part-00000.parquet"))],
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
