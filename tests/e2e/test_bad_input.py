"""Mistakes of users: one clear line each, exit code 2, no traceback, and nothing lost."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from own_recipe import ENVIRONMENT, Outcome, rubricworks, write_recipe
from photographs import TRUTH, take_photographs

from rubricworks.data.tables import read_rows

pytestmark = pytest.mark.slow

NOBODY = "http://127.0.0.1:9/v1"
"""Port 9 is for discarding; nothing listens there."""


def one_line(outcome: Outcome, *parts: str) -> None:
    assert outcome.code == 2, outcome
    assert "Traceback" not in outcome.out + outcome.err
    assert len(outcome.errors) == 1, outcome
    assert outcome.err.rstrip().splitlines()[-1] == outcome.errors[0]
    for part in parts:
        assert part in outcome.errors[0]


@pytest.fixture
def recipe(tmp_path, photographs, stub) -> Path:
    return write_recipe(tmp_path / "my.yaml", photographs, stub[0].url)


def test_an_empty_folder_is_named_and_leaves_no_run(tmp_path, stub):
    (tmp_path / "empty").mkdir()
    recipe = write_recipe(tmp_path / "my.yaml", tmp_path / "empty", stub[0].url)
    one_line(rubricworks("run", recipe, "--run", "a", cwd=tmp_path), str(tmp_path / "empty"), "no images here")
    assert not (tmp_path / "runs").exists()


def test_text_files_named_jpg_are_rejected_and_the_mended_folder_resumes(tmp_path, stub):
    images = tmp_path / "images"
    images.mkdir()
    for name in ("a.jpg", "b.jpg"):
        (images / name).write_text(f"{name}: a shopping list")
    (images / "metadata.jsonl").write_text(
        "".join(f'{{"file_name": "{name}", "text": "a list"}}\n' for name in ("a.jpg", "b.jpg"))
    )
    recipe = write_recipe(tmp_path / "my.yaml", images, stub[0].url)
    outcome = rubricworks("run", recipe, "--run", "a", cwd=tmp_path)
    one_line(outcome, "stage prepare failed", "a.jpg: not an image", "rubricworks run --resume a")

    # Mended, the folder is read anew; the next mistake is another one, and nothing is asked before it is found.
    shutil.rmtree(images)
    take_photographs(images)
    (images / "metadata.jsonl").unlink()
    asked = len(stub[0].chats)
    outcome = rubricworks("run", "--resume", "a", cwd=tmp_path)
    one_line(outcome, "captions", "no image to train on has a caption", "metadata.jsonl")
    assert len(stub[0].chats) == asked

    # Only an image that turns out to be none had a caption.
    (images / "metadata.jsonl").write_text('{"file_name": "notes.jpg", "text": "a shopping list"}')
    outcome = rubricworks("run", "--resume", "a", "--set", "data.held_out=1", cwd=tmp_path)
    one_line(outcome, "stage warm_up failed", "no sample has a caption to warm up on", "start a new run")
    assert len(list(read_rows(tmp_path / "runs" / "a" / "prepare"))) == len(TRUTH)


def test_dead_endpoint_is_named_by_its_field_with_a_test_command(tmp_path, photographs, stub):
    recipe = write_recipe(tmp_path / "my.yaml", photographs, stub[0].url)
    outcome = rubricworks("run", recipe, "--set", f"rubric.writer.url={NOBODY}", cwd=tmp_path)
    one_line(outcome, "endpoint rubric.writer", f"writer at {NOBODY}", 'curl -sS "http://127.0.0.1:9/v1/models"')


def test_a_model_that_is_not_served_is_named_with_those_that_are(tmp_path, recipe):
    outcome = rubricworks("run", recipe, "--set", "policy.reward.judge.model=jugde", cwd=tmp_path)
    one_line(outcome, "endpoint policy.reward.judge", "jugde at ", "it serves captioner-1")


def test_no_mlflow_server_at_the_uri(tmp_path, recipe):
    outcome = rubricworks("run", recipe, "--set", "tracking.uri=http://127.0.0.1:9", cwd=tmp_path)
    one_line(outcome, "tracking", "no MLflow server at http://127.0.0.1:9", "curl http://127.0.0.1:9/health")


def test_a_run_that_is_not_there_and_one_that_is(tmp_path, recipe, own_run):
    one_line(rubricworks("run", "--resume", "gone", cwd=tmp_path), "no run 'gone'", "there are none")
    runs = own_run.folder.parent
    one_line(rubricworks("run", "--resume", "gone", "--runs", runs, cwd=tmp_path), "no run 'gone'", "mine")
    before = (own_run.folder / "summary.json").read_bytes()
    outcome = rubricworks("run", recipe, "--run", "mine", "--runs", runs, cwd=tmp_path)
    one_line(outcome, "is there already", "--resume mine", "another --run")
    assert (own_run.folder / "summary.json").read_bytes() == before


def test_runs_that_cannot_be_written(tmp_path, recipe):
    (tmp_path / "file").touch()
    one_line(rubricworks("run", recipe, "--runs", tmp_path / "file", cwd=tmp_path), "file", "--runs")


@pytest.mark.parametrize("blow", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_second_run_in_a_folder_is_refused_and_the_stopped_one_can_resume(tmp_path, recipe, stub, blow):
    first = start_run(recipe, tmp_path)
    run = tmp_path / "runs" / "a"
    try:
        wait_until(lambda: (run / "prepare" / "done.json").exists(), first)
        one_line(rubricworks("run", "--resume", "a", cwd=tmp_path), "a is running already")
        assert first.poll() is None
        first.send_signal(blow)
        out, err = first.communicate(timeout=300)
    finally:
        first.kill()
    assert first.returncode == 128 + blow, err
    assert err.rstrip().splitlines()[-1] == "stopped; continue with: rubricworks run --resume a"
    assert "Traceback" not in out + err
    assert len(list(read_rows(run / "prepare"))) == len(TRUTH)
    shown = rubricworks("runs", "show", "a", cwd=tmp_path).out.splitlines()
    assert (shown[0], shown[-1]) == ("a: stopped", "continue with: rubricworks run --resume a")


def test_a_full_disk_is_named_at_every_point_and_what_was_committed_is_kept(tmp_path, recipe, photographs, stub):
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", disk]).returncode:
        pytest.skip("a small disk can only be mounted by root")

    def enlarge(size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", disk], check=True)

    out = disk / "out"
    caption = ["caption", photographs, "--model", f"captioner-1@{stub[0].url}", "--out", out]
    try:
        one_line(rubricworks("run", recipe, "--runs", disk, cwd=tmp_path), "disk", "0.0 GiB free at")
        one_line(rubricworks(*caption, cwd=tmp_path), f"no room on {disk}", "free space and run again")
        enlarge("256k")
        one_line(rubricworks(*caption, cwd=tmp_path), str(disk), "make room", "what was committed is kept")
        committed = (out / "prepare" / "samples" / "part-00000.parquet").stat().st_mtime_ns
        enlarge("64m")
        done = rubricworks(*caption, cwd=tmp_path)
        assert done.code == 0, done
        assert "captions.parquet: 10 rows" in done.out
        assert (out / "prepare" / "samples" / "part-00000.parquet").stat().st_mtime_ns == committed
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def start_run(recipe: Path, home: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "rubricworks.cli", "run", str(recipe), "--run", "a"]
    return subprocess.Popen(
        command, cwd=home, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_until(condition, process: "subprocess.Popen[str]") -> None:
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
