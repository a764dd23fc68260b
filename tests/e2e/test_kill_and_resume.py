"""Kill -9 during each stage, resume, and end with the tables and weights of a run that was never stopped."""

import json
from pathlib import Path

import pytest
from kills import continued_after, differing, kill, products, run_with_kills, saved, there
from tiny_run import TINY, Run, settings

from rubricworks.tracking import TrackingConfig
from rubricworks.tracking.connection import connect

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

# Rubrics that ask for what the student misses, and a student that moves: each rewriting differs from the one before.
REFRESH = {
    "policy.reward.refresh.every": 2,
    "rubric.coverage": "discriminative",
    "rubric.guards": False,
    "warm_up.sft.steps": 60,
    "warm_up.sft.batch_size": 32,
    "warm_up.sft.save_every": 30,
    "student.max_new_tokens": 24,
    "policy.algorithm.rollouts.max_new_tokens": 24,
    "policy.algorithm.optimizer.learning_rate": 3e-3,
}
RUBRICS = "train_policy/refreshed_rubrics"


# How each stage is killed, and when: with some of its work committed, and some not.
KILLS = {
    "prepare": [("everything", there("prepare/samples/part-00000.parquet"))],
    "warm_up": [
        ("everything", saved("warm_up/checkpoint-2")),
        ("stage", saved("warm_up/checkpoint-4")),
    ],
    "caption_student": [("stage", there("caption_student/captions/part-00001.parquet"))],
    "caption_committee": [("run", there("caption_committee/captions/part-00001.parquet"))],
    "synthesize_rubrics": [("stage", there("synthesize_rubrics/rubrics/part-00001.parquet"))],
    "train_policy": [
        ("run", saved("train_policy/checkpoint-2")),
        ("everything", saved("train_policy/checkpoint-4")),
    ],
    "score": [
        ("stage", there("score/responses/responses/part-00000.parquet")),
        ("run", there("score/scores/part-00000.parquet")),
    ],
    "promote": [("stage", there("../mlartifacts/models/*/artifacts/model/config.json"))],
    "report": [("stage", there("report/made_from.json"))],
}
MADE = [stage for stage in KILLS if stage != "report"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> tuple[Path, dict[str, bytes]]:
    runs = tmp_path_factory.mktemp("unbroken")
    Run(runs, "quickstart", *settings(TINY), "--run", "whole").finish()
    made = products(runs / "whole", MADE)
    last_shards = {"train_policy/scorecards/part-00002.parquet", "score/scores/part-00001.parquet"}
    assert last_shards | {"warm_up/model/model.safetensors", "train_policy/model/model.safetensors"} <= made.keys()
    return runs / "whole", made


def test_killed_in_every_stage_and_resumed_it_ends_as_if_it_had_never_stopped(runs, unbroken):
    folder = runs / "cut"
    output = run_with_kills(folder, ["quickstart", *settings(TINY), "--run", "cut"], KILLS)
    assert differing(products(folder, MADE), unbroken[1]) == []
    # From a checkpoint each time, and from step 0 only where there was none yet.
    assert continued_after("warm-up", output) == [2, 4]
    assert continued_after("policy", output) == [2, 4]
    assert same_but_time(folder) == same_but_time(unbroken[0])
    assert registered(runs) == [1]


def same_but_time(run: Path) -> dict:
    summary = json.loads((run / "summary.json").read_text())
    return {name: value for name, value in summary.items() if name not in ("seconds", "run")}


def registered(runs: Path) -> list[int]:
    connection = connect(TrackingConfig(), runs)
    assert connection
    return [int(version.version) for version in connection.client.search_model_versions("name = 'scene-captioner'")]


def test_a_training_whose_rubrics_are_rewritten_goes_on_with_those_in_force(runs, unbroken):
    # Both runs are finished; the settings make them train anew, from the samples and captions that are there.
    whole = unbroken[0]
    Run(whole.parent, "--resume", "whole", *settings(REFRESH)).finish()
    expected = products(whole, MADE)
    assert len({file.read_text() for file in (whole / RUBRICS).iterdir()}) == 2

    folder = runs / "cut"
    started = ["--resume", "cut", *settings(REFRESH)]
    output = ""
    for step in (2, 4):
        run = Run(runs, *started)
        run.wait_for_one({"refresh": lambda step=step: any(folder.glob(f"{RUBRICS}/step-00000{step}.json"))})
        kill(run, folder, "train_policy", "everything")
        output += run.output
        started = ["--resume", "cut"]
    output += Run(runs, *started).finish()
    assert differing(products(folder, MADE), expected) == []
    assert continued_after("policy", output) == [2, 4]
    assert "prepare            | done in an earlier run" in output
