"""The quickstart in small: what a user finds after it, and that nothing of it is left running."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_run import TINY, Run, settings

from rubricworks.tracking import TrackingConfig, registry
from rubricworks.tracking.connection import connect

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

ALWAYS_PROMOTED = {"promotion.gate.win_rate_low_above": "null"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, str]:
    runs = tmp_path_factory.mktemp("runs")
    # `finish` sees to it that no process of the run, the world's server included, outlives it.
    output = Run(runs, "quickstart", *settings(TINY), "--run", "small").finish()
    return runs / "small", output


def test_summary_and_report_say_how_it_went(finished):
    run, output = finished
    summary = json.loads((run / "summary.json").read_text())
    assert summary["win_rate"].keys() >= {"value", "low", "high"}
    assert summary["win_rate"]["low"] <= summary["win_rate"]["value"] <= summary["win_rate"]["high"]
    assert summary["oracle_f1"].keys() == {"base", "policy"}
    assert summary["rubric_reward"].keys() == {"base", "policy"}
    assert summary["seconds"]["total"] >= summary["seconds"]["train_policy"] > 0
    assert summary["promoted"] is False
    page = (run / "report.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://127.0.0.1", "")
    assert page.count("data:image/") >= 8
    assert "not promoted: win rate" in output
    assert f"report: {run / 'report.html'}\neach rollout with its verdicts: " in output
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
    run, _ = finished
    image = next((run / "world" / "images").glob("*.png"))
    loaded = subprocess.run(
        [sys.executable, "-c", LOAD, str(run / "train_policy" / "model"), str(image)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert loaded.returncode == 0, loaded.stderr
    assert 1 <= int(loaded.stdout) <= 4


def test_stages_are_nested_in_the_runs_mlflow_run_and_only_a_promoted_model_is_champion(finished):
    run, _ = finished
    connection = connect(TrackingConfig(), run.parent)
    assert connection
    runs = connection.client.search_runs([connection.experiment_id])
    (pipeline,) = (one for one in runs if "mlflow.parentRunId" not in one.data.tags)
    nested = {one.info.run_name: one for one in runs if one is not pipeline}
    assert {"warm_up", "train_policy", "promote"} <= nested.keys()
    assert all(one.data.tags["mlflow.parentRunId"] == pipeline.info.run_id for one in nested.values())
    assert {one.info.status for one in runs} == {"FINISHED"}
    curve = connection.client.get_metric_history(nested["train_policy"].info.run_id, "reward")
    assert [point.step for point in curve] == list(range(1, TINY["policy.steps"] + 1))
    assert registry.champion(connection, "scene-captioner") is None

    output = Run(run.parent, "--resume", run.name, *settings(ALWAYS_PROMOTED)).finish()
    assert "promoted to champion" in output
    champion = registry.champion(connection, "scene-captioner")
    assert champion
    assert champion.tags["run"] == run.name
    assert json.loads((run / "summary.json").read_text())["promoted"] is True


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
