"""Scheduled retraining in small, through the command line: a champion, too little new, enough new, a person's say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_run import TINY, Run, settings

from rubricworks.reports.run_folder import read_ledger
from rubricworks.tracking import TrackingConfig, connect, registry

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

ALWAYS = {"promotion.gate.win_rate_low_above": "null"}
GROWN = {"world.scenes": TINY["world.scenes"] + 12}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A champion made of 48 scenes."""
    runs = tmp_path_factory.mktemp("runs")
    Run(runs, "quickstart", *settings({**TINY, **ALWAYS}), "--run", "first").finish()
    return runs


def promote(runs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rubricworks.cli", "promote", *arguments, "--runs", str(runs)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def champion_of(runs: Path) -> int | None:
    connection = connect(TrackingConfig(), runs)
    assert connection is not None
    found = registry.champion(connection, "scene-captioner")
    return found and found.version


def test_too_little_new_is_a_run_that_ends_well(runs):
    said = Run(runs, "retrain-laptop", *settings(GROWN), "--set", "new_samples.needed=500", "--run", "few").finish()
    assert said.rstrip().endswith("skipped: 12 new samples, 500 needed")
    assert [line["stage"] for line in read_ledger(runs / "few")] == ["find_new_samples"]
    assert champion_of(runs) == 1


def test_enough_new_makes_a_challenger_that_waits_and_then_is_the_champion(runs):
    policy = {
        "new_samples.needed": 10,
        "challenge.gate": "{win_rate_low_above: null, rubric_reward_gain_at_least: -1, samples_at_least: 1}",
        "challenge.approval": "person",
    }
    said = Run(runs, "retrain-laptop", *settings({**GROWN, **policy}), "--run", "enough").finish()
    run = runs / "enough"
    assert "passed and waits for approval: rubricworks promote scene-captioner" in said
    stages = {line["stage"] for line in read_ledger(run)}
    assert stages >= {"find_new_samples", "fetch_champion", "prepare", "train_policy", "score", "challenge"}
    assert not stages & {"promote", "report"}
    # The champion stands where the base would.
    first = (runs / "first" / "train_policy" / "model" / "model.safetensors").read_bytes()
    assert (run / "fetch_champion" / "model" / "model.safetensors").read_bytes() == first
    assert (run / "train_policy" / "model" / "model.safetensors").read_bytes() != first
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["champion"], summary["version"], summary["standing"]) == (1, 2, "waiting")
    assert champion_of(runs) == 1

    assert "challenger version 2: waiting" in promote(runs).stdout
    assert promote(runs, "scene-captioner").stdout == "scene-captioner version 2 is the champion\n"
    assert champion_of(runs) == 2
    again = promote(runs, "scene-captioner")
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert "scene-captioner has no challenger" in again.stderr

    # What it was trained on is known now; a run that is continued stays as it was.
    said = Run(runs, "retrain-laptop", *settings({**GROWN, **policy}), "--run", "after").finish()
    assert said.rstrip().endswith("skipped: 0 new samples, 10 needed")
    assert "waits for approval" in Run(runs, "--resume", "enough").finish()
    assert champion_of(runs) == 2
