"""The quickstart in small: what a user finds after it, that it may be killed, and what is built on it.

One run, `main`, is made once. Another takes its stages (`--reuse`), one is killed and resumed and ends as it did, its
policy is promoted, and retrained when there is enough that is new.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kills import continued_after, differing, products, run_with_kills, saved
from tiny_run import TINY, Run, finish_run, settings

from rubricworks.data.ledger import read_ledger
from rubricworks.tracking import TrackingConfig, connect, registry

pytestmark = pytest.mark.slow

SHARED = ["warm_up", "caption_committee", "caption_student", "synthesize_rubrics", "train_policy"]
ITS_OWN = ["prepare", "score", "promote", "report"]
MADE = ["prepare", *SHARED]
ALWAYS_PROMOTED = {"promotion.gate.win_rate_low_above": "null"}
GROWN = {"world.scenes": TINY["world.scenes"] + 12}


class Finished(NamedTuple):
    run: Path
    output: str
    made: dict[str, bytes]
    summary: dict[str, Any]
    page: str
    champion: int | None


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Finished:
    runs = tmp_path_factory.mktemp("runs")
    # `finish` sees to it that no process of the run, the world's server included, outlives it.
    output = Run(runs, "quickstart", *settings(TINY), "--run", "main").finish()
    run = runs / "main"
    summary, page = json.loads((run / "summary.json").read_text()), (run / "report.html").read_text()
    return Finished(run, output, products(run, MADE), summary, page, champion_of(runs))


@pytest.fixture(scope="module")
def promoted(finished) -> str:
    """Output of the run when it goes on with a gate that lets everything pass."""
    return finish_run(finished.run.parent, "--resume", "main", *settings(ALWAYS_PROMOTED))


def champion_of(runs: Path) -> int | None:
    connection = connect(TrackingConfig(), runs)
    assert connection is not None
    champion = registry.champion(connection, "scene-captioner")
    return champion and champion.version


def test_summary_and_report_say_how_it_went(finished):
    output, summary, page = finished.output, finished.summary, finished.page
    assert summary["win_rate"].keys() >= {"value", "low", "high"}
    assert summary["win_rate"]["low"] <= summary["win_rate"]["value"] <= summary["win_rate"]["high"]
    assert summary["oracle_f1"].keys() == {"base", "policy"}
    assert summary["rubric_reward"].keys() == {"base", "policy"}
    assert summary["seconds"]["total"] >= summary["seconds"]["train_policy"] > 0
    assert summary["promoted"] is False
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://127.0.0.1", "")
    assert page.count("data:image/") >= 8
    assert "not promoted: win rate" in output
    assert f"report: {finished.run / 'report.html'}\neach rollout with its verdicts: " in output
    assert "rubricworks server --runs" in output


LOAD = """
import sys
from transformers import AutoModelForImageTextToText
from rubricworks.training.processing import load_processor
model = AutoModelForImageTextToText.from_pretrained(sys.argv[1])
processor = load_processor(sys.argv[1])
from PIL import Image
messages = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "describe the image"}]}]
text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
inputs = processor(images=[Image.open(sys.argv[2])], text=[text], return_tensors="pt")
print(model.generate(**inputs, max_new_tokens=4).shape[1] - inputs["input_ids"].shape[1])
"""


def test_the_policy_is_a_plain_hugging_face_folder(finished):
    run = finished.run
    image = next((run / "world" / "images").glob("*.png"))
    loaded = subprocess.run(
        [sys.executable, "-c", LOAD, str(run / "train_policy" / "model"), str(image)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert loaded.returncode == 0, loaded.stderr
    assert 1 <= int(loaded.stdout) <= 4


def test_stages_are_nested_in_the_runs_mlflow_run(finished):
    connection = connect(TrackingConfig(), finished.run.parent)
    assert connection
    (pipeline,) = connection.client.search_runs([connection.experiment_id], "attributes.run_name = 'main'")
    children = f"tags.`mlflow.parentRunId` = '{pipeline.info.run_id}'"
    nested = {run.info.run_name: run for run in connection.client.search_runs([connection.experiment_id], children)}
    assert {"warm_up", "train_policy", "promote"} <= nested.keys()
    assert {run.info.status for run in (pipeline, *nested.values())} == {"FINISHED"}
    curve = connection.client.get_metric_history(nested["train_policy"].info.run_id, "reward")
    assert [point.step for point in curve] == list(range(1, TINY["policy.algorithm.steps"] + 1))


def test_only_a_promoted_model_is_champion(finished, promoted):
    assert finished.champion is None
    assert "promoted to champion" in promoted
    connection = connect(TrackingConfig(), finished.run.parent)
    assert connection
    champion = registry.champion(connection, "scene-captioner")
    assert champion
    assert champion.tags["run"] == "main"
    assert json.loads((finished.run / "summary.json").read_text())["promoted"] is True


def test_dry_run_prints_the_plan_and_makes_nothing(tmp_path):
    planned = subprocess.run(
        [sys.executable, "-m", "rubricworks.cli", "run", "quickstart", "--dry-run", "--runs", str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        check=True,
    )
    for stage in ("prepare", "warm_up", "caption_committee", "synthesize_rubrics", "train_policy", "score"):
        assert stage in planned.stdout
    # 1,280 images, each described by five teachers.
    assert any("caption_committee" in line and "teacher" in line for line in planned.stdout.splitlines())
    assert "dollars in all" in planned.stdout
    assert not (tmp_path / "runs").exists()


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_what_is_made_from_the_same_is_taken_and_the_rest_is_made(finished):
    runs = finished.run.parent
    before = everything(runs / "main")
    other = ["--set", "evaluation.scorers.arena.order=both", "--run", "other", "--reuse", "main"]
    said = finish_run(runs, "quickstart", *settings(TINY), *other)

    lines = {line["stage"]: line for line in read_ledger(runs / "other")}
    assert {stage for stage in lines if lines[stage].get("reused") == "main"} == set(SHARED)
    assert lines.keys() == {*SHARED, *ITS_OWN}
    assert said.count("| taken from main") == len(SHARED)
    assert said.count("| not taken from main: its configuration differs") == 1
    # The images lie in another folder, and count as the same because they are.
    assert (
        differing(products(runs / "other", ["prepare", *SHARED]), products(runs / "main", ["prepare", *SHARED])) == []
    )
    assert everything(runs / "main") == before
    assert (runs / "other" / "report.html").is_file()
    summary = json.loads((runs / "other" / "summary.json").read_text())
    assert summary["oracle_f1"]["policy"] is not None

    again = finish_run(runs, "--resume", "other")
    assert "taken from" not in again


def test_in_another_world_nothing_is_the_same(finished):
    runs = finished.run.parent
    small = {**TINY, "policy.algorithm.steps": 2, "world.seed": 5}
    finish_run(runs, "quickstart", *settings(small), "--run", "elsewhere", "--reuse", "main")
    assert not any("reused" in line for line in read_ledger(runs / "elsewhere"))


def test_killed_and_resumed_it_ends_as_if_it_had_never_stopped(finished, tmp_path):
    """In the policy's training; `test_kill_and_resume` kills each stage, at several moments."""
    kills = {"train_policy": [("everything", saved("train_policy/checkpoint-2"))]}
    output = run_with_kills(tmp_path / "cut", ["quickstart", *settings(TINY), "--run", "cut"], kills)
    assert differing(products(tmp_path / "cut", MADE), finished.made) == []
    assert continued_after("policy", output) == [2]


def promote(runs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rubricworks.cli", "promote", *arguments, "--runs", str(runs)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_too_little_new_is_a_run_that_ends_well(finished, promoted):
    runs = finished.run.parent
    said = finish_run(runs, "retrain-laptop", *settings(GROWN), "--set", "new_samples.needed=500", "--run", "few")
    assert said.rstrip().endswith("skipped: 12 new samples, 500 needed")
    assert [line["stage"] for line in read_ledger(runs / "few")] == ["find_new_samples"]


def test_enough_new_makes_a_challenger_that_waits_and_then_is_the_champion(finished, promoted):
    runs = finished.run.parent
    champion = champion_of(runs)
    policy = {
        "new_samples.needed": 10,
        "challenge.gate": "{win_rate_low_above: null, rubric_reward_gain_at_least: -1, samples_at_least: 1}",
        "challenge.approval": "person",
    }
    said = finish_run(runs, "retrain-laptop", *settings({**GROWN, **policy}), "--run", "enough")
    run = runs / "enough"
    assert "passed and waits for approval: rubricworks promote scene-captioner" in said
    stages = {line["stage"] for line in read_ledger(run)}
    assert stages >= {"find_new_samples", "fetch_champion", "prepare", "train_policy", "score", "challenge"}
    assert not stages & {"promote", "report"}
    # The champion stands where the base would.
    first = (runs / "main" / "train_policy" / "model" / "model.safetensors").read_bytes()
    assert (run / "fetch_champion" / "model" / "model.safetensors").read_bytes() == first
    assert (run / "train_policy" / "model" / "model.safetensors").read_bytes() != first
    summary = json.loads((run / "summary.json").read_text())
    challenger = summary["version"]
    assert challenger > champion
    assert (summary["champion"], summary["standing"]) == (champion, "waiting")
    assert champion_of(runs) == champion

    assert f"challenger version {challenger}: waiting" in promote(runs).stdout
    assert promote(runs, "scene-captioner").stdout == f"scene-captioner version {challenger} is the champion\n"
    assert champion_of(runs) == challenger
    again = promote(runs, "scene-captioner")
    assert again.returncode == 0
    assert again.stdout == f"scene-captioner version {challenger} is the champion already, and no challenger waits\n"

    # What it was trained on is known now; a run that is continued stays as it was.
    said = finish_run(runs, "retrain-laptop", *settings({**GROWN, **policy}), "--run", "after")
    assert said.rstrip().endswith("skipped: 0 new samples, 10 needed")
    assert "waits for approval" in finish_run(runs, "--resume", "enough")
    assert champion_of(runs) == challenger
