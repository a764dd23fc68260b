"""RLR³ in small, killed in its policy's training and in its audit, ends as a run that was never stopped."""

import json
from pathlib import Path
from typing import Any

import pytest
from kills import continued_after, differing, products, run_with_kills, saved, there
from small_rlr3 import TINY_RLR3, WORLD
from tiny_run import Run, settings

from rubricworks.recipe.files import load_recipe

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

ARGUMENTS = ["rlr3-laptop", *settings(WORLD | TINY_RLR3)]
KILLS = {
    "train_rlr3": [("everything", saved("train_rlr3/checkpoint-1")), ("run", saved("train_rlr3/checkpoint-3"))],
    "audit": [
        ("stage", there("audit/candidates/pass-01/audit_candidates/part-00001.parquet")),
        ("everything", there("audit/part-00001.parquet")),
    ],
}


def test_killed_in_policy_and_audit_it_ends_as_the_unbroken_run(tmp_path):
    Run(tmp_path / "unbroken", *ARGUMENTS, "--run", "whole").finish()
    whole, folder = tmp_path / "unbroken" / "whole", tmp_path / "runs" / "cut"
    output = run_with_kills(folder, [*ARGUMENTS, "--run", "cut"], KILLS)
    stages = [stage for stage in load_recipe(whole / "recipe.yaml").stage_configs() if stage != "rlr3_report"]
    expected = products(whole, stages)
    assert {"train_rlr3/model/model.safetensors", "audit/part-00003.parquet", "score/scores.json"} <= expected.keys()
    assert differing(products(folder, stages), expected) == []
    assert continued_after("policy", output) == [1, 3]
    assert same_but_time(whole) == same_but_time(folder)


def same_but_time(run: Path) -> dict[str, Any]:
    summary = json.loads((run / "summary.json").read_text())
    return {name: value for name, value in summary.items() if name not in ("seconds", "run")}
