"""Seeds in processes of their own, with a stub in the place of `rubricworks run`."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rubricworks.claims.child_runs import make_runs
from rubricworks.claims.planned_runs import plan_runs
from rubricworks.claims.settings import is_finished
from rubricworks.errors import UserError

STUB = (sys.executable, str(Path(__file__).with_name("run_stub.py")))


@pytest.fixture
def call(tmp_path):
    """Runs seeds with the stub; returns what was said."""

    def run(seeds, overrides=(), *, at_once=2, say=None, **behaviour):
        (tmp_path / "behaviour.json").write_text(json.dumps(behaviour))
        lines = []
        runs = plan_runs("rlr3-laptop", tmp_path, seeds, overrides, is_finished=is_finished)
        make_runs(runs, at_once=at_once, say=say or lines.append, command=STUB, interval=0.1)
        return lines

    return run


def calls(tmp_path):
    return [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]


def test_each_seed_is_one_run_of_the_recipe_as_a_user_types_it(call, tmp_path):
    lines = call([1, 7], ["policy.algorithm.steps=4"], at_once=1)
    first, second = calls(tmp_path)
    settings = ["--set", "policy.algorithm.steps=4", "--set"]
    assert first["words"] == ["run", "rlr3-laptop", "--runs", str(tmp_path), "--run", "seed-1", *settings, "seed=1"]
    assert second["words"][-1] == "seed=7"
    assert first["threads"] == "1"
    assert any(line.startswith("seed 1: done in") for line in lines)


def test_progress_tells_the_stage_and_what_it_last_said(call, tmp_path):
    lines = []

    def say(line):
        lines.append(line)
        if line.endswith("train_rlr3 (0 of 13 stages done) policy 3/9"):
            (tmp_path / "go").touch()

    call([1], say=say, **{"seed-1": "hang"})
    assert (tmp_path / "go").exists(), lines
    assert lines[-1].startswith("seed 1: done in")


def test_what_is_left_is_told_by_the_stages_of_finished_seeds(call, tmp_path):
    call([1])
    took = [{"stage": "warm_up", "seconds": 60}, {"stage": "train_rlr3", "seconds": 240}]
    (tmp_path / "seed-1" / "ledger.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in took))
    (tmp_path / "seed-2").mkdir()
    (tmp_path / "seed-2" / "ledger.jsonl").write_text(json.dumps(took[0]) + "\n")
    lines = []

    def say(line):
        lines.append(line)
        if ", about 4 min 00 s left: train_rlr3" in line:
            (tmp_path / "go").touch()

    call([1, 2], say=say, **{"seed-2": "hang"})
    assert (tmp_path / "go").exists(), lines


def test_so_many_run_side_by_side_and_no_more(call, tmp_path):
    call([1, 2, 3, 4], at_once=2, together=2)
    assert len(calls(tmp_path)) == 4
    concurrency = [int((tmp_path / f"seed-{seed}.beside").read_text()) for seed in (1, 2)]
    assert max(concurrency) == 2
    assert max(int(path.read_text()) for path in tmp_path.glob("*.beside")) == 2


def test_finished_seeds_are_not_run_again(call, tmp_path):
    call([1])
    lines = call([1, 2])
    assert [other["run"] for other in calls(tmp_path)] == ["seed-1", "seed-2"]
    assert lines[0] == "seed 1: finished in an earlier call"


def test_stopped_seed_is_resumed_with_the_settings_that_it_has(call, tmp_path):
    with pytest.raises(UserError, match=r"seed 1 failed: no room on / \(log: .*seed-1\.log\).*same command again"):
        call([1, 2, 3], ["policy.algorithm.steps=4"], at_once=1, **{"seed-1": "fail"})
    assert [other["run"] for other in calls(tmp_path)] == ["seed-1"]
    call([1, 2, 3], ["policy.algorithm.steps=4"], at_once=1, **{"seed-1": "fail"})
    assert calls(tmp_path)[1]["words"] == ["run", "--runs", str(tmp_path), "--resume", "seed-1"]
    assert [other["run"] for other in calls(tmp_path)] == ["seed-1", "seed-1", "seed-2", "seed-3"]


def test_run_that_left_all_that_is_needed_counts_although_it_failed_later(call):
    lines = call([1], **{"seed-1": "late"})
    assert any("though it ended with exit code 3" in line for line in lines)


def test_interrupted_call_ends_its_runs(call, tmp_path):
    def interrupt(line):
        if "started" in line:
            deadline = time.monotonic() + 300
            while not (tmp_path / "hanging").exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call([1], say=interrupt, **{"seed-1": "hang"})
    assert (tmp_path / "seed-1.interrupted").exists()


@pytest.mark.slow
def test_terminated_call_ends_its_runs(tmp_path):
    (tmp_path / "behaviour.json").write_text(json.dumps({"seed-1": "hang"}))
    program = (
        "from pathlib import Path; from rubricworks.claims.planned_runs import plan_runs\n"
        "from rubricworks.claims.settings import is_finished\n"
        "from rubricworks.claims.child_runs import make_runs\n"
        f"runs = plan_runs('rlr3-laptop', Path({str(tmp_path)!r}), [1], [], is_finished=is_finished)\n"
        f"make_runs(runs, say=print, command={STUB!r})"
    )
    caller = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while not (tmp_path / "hanging").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(caller.pid, signal.SIGTERM)
        caller.wait(60)
    finally:
        caller.kill()
    assert (tmp_path / "seed-1.interrupted").exists()
