"""Kill -9 during each stage, resume, and end with the tables and weights of a run that was never stopped."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tiny_run import TINY, Run, settings

from rubricworks.tracking import TrackingConfig
from rubricworks.tracking.connection import connect

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

Moment = Callable[[Path], bool]
# Rubrics that ask for what the student misses, and a student that moves: each rewriting differs from the one before.
REFRESH = {
    "rubric.refresh_every": 2,
    "rubric.coverage": "discriminative",
    "rubric.guards": False,
    "warm_up.sft.steps": 60,
    "warm_up.sft.batch_size": 32,
    "warm_up.sft.save_every": 30,
    "student.max_new_tokens": 24,
    "policy.max_new_tokens": 24,
    "policy.learning_rate": 3e-3,
}
RUBRICS = "train_policy/refreshed_rubrics"


def there(pattern: str) -> Moment:
    """When a file is there, below the run's folder or beside it."""
    return lambda run: any(run.glob(pattern))


def saved(checkpoint: str) -> Moment:
    """When a checkpoint is complete: its state comes last."""

    def is_whole(run: Path) -> bool:
        try:
            return bool(json.loads((run / checkpoint / "trainer_state.json").read_text()))
        except (OSError, ValueError):
            return False

    return is_whole


# How each stage is killed, and when: with some of its work committed, and some not.
KILLS = {
    "prepare": [("everything", there("prepare/part-00000.parquet"))],
    "warm_up": [
        ("everything", saved("warm_up/checkpoint-2")),
        ("stage", saved("warm_up/checkpoint-4")),
    ],
    "caption_student": [("stage", there("caption_student/part-00001.parquet"))],
    "caption_committee": [("run", there("caption_committee/part-00001.parquet"))],
    "synthesize_rubrics": [("stage", there("synthesize_rubrics/part-00001.parquet"))],
    "train_policy": [
        ("run", saved("train_policy/checkpoint-2")),
        ("everything", saved("train_policy/checkpoint-4")),
    ],
    "evaluate": [("run", there("evaluate/part-00000.parquet"))],
    "promote": [("stage", there("../mlartifacts/*/artifacts/model-*/config.json"))],
    "report": [("stage", there("report/made_from.json"))],
}

PRODUCTS = [
    *("part-*.parquet", "manifest.json", "done.json", "model.safetensors", "tokenizer.json", "config.json"),
    *("steps.jsonl", "alarm.json", "summary.json", "promotion.json", "step-*.json"),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> tuple[Path, dict[str, bytes]]:
    runs = tmp_path_factory.mktemp("unbroken")
    Run(runs, "quickstart", *settings(TINY), "--run", "whole").finish()
    made = products(runs / "whole")
    last_shards = {"train_policy/scorecards/part-00002.parquet", "evaluate/part-00001.parquet"}
    assert last_shards | {"warm_up/model/model.safetensors", "train_policy/model/model.safetensors"} <= made.keys()
    return runs / "whole", made


def products(run: Path) -> dict[str, bytes]:
    """What must not depend on kills: tables, weights, and the digests of all that stages made.

    The report's own folder stays out: its summary says how long everything took.
    """
    found = (file for stage in KILLS if stage != "report" for name in PRODUCTS for file in (run / stage).rglob(name))
    files = (file for file in found if not any(part.startswith("checkpoint-") for part in file.parts))
    return {str(file.relative_to(run)): file.read_bytes() for file in files}


def differing(found: dict[str, bytes], expected: dict[str, bytes]) -> list[str]:
    return sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))


def kill(run: Run, folder: Path, stage: str, how: str) -> None:
    if how == "stage":
        run.kill_stage(stage)
        assert run.process.wait() == 2
        assert f"stage {stage} failed: it was killed from outside (SIGKILL)" in run.output
        assert f"rubricworks run --resume {folder.name}" in run.output.splitlines()[-1]
    elif how == "run":
        run.kill_run()
    else:
        run.kill_everything()
    run.wait_until_gone()
    assert not (folder / stage / "done.json").exists(), f"{stage} was done before it was killed"


def continued_after(title: str, output: str) -> list[int]:
    """The steps of the checkpoints that a training took up, attempt by attempt."""
    return [int(line.split()[-1]) for line in output.splitlines() if f"{title} continues after step" in line]


def test_killed_in_every_stage_and_resumed_it_ends_as_if_it_had_never_stopped(runs, unbroken):
    folder = runs / "cut"
    started = ["quickstart", *settings(TINY), "--run", "cut"]
    output = ""
    # Kubeflow Pipelines may run the committee before the warm-up or after it, so the stage that comes is killed.
    left = {stage: list(kills) for stage, kills in KILLS.items()}
    while left:
        run = Run(runs, *started)
        stage = run.wait_for_one({stage: partial(kills[0][1], folder) for stage, kills in left.items()})
        kill(run, folder, stage, left[stage].pop(0)[0])
        left = {stage: kills for stage, kills in left.items() if kills}
        output += run.output
        started = ["--resume", "cut"]
    output += Run(runs, *started).finish()

    assert differing(products(folder), unbroken[1]) == []
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
    expected = products(whole)
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
    assert differing(products(folder), expected) == []
    assert continued_after("policy", output) == [2, 4]
    assert "prepare            | done in an earlier run" in output
