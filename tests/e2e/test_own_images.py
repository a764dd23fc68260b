"""A user's own photographs through the whole pipeline, with models that answer well and with one that cannot.

The stub's judge scores by words, so every rubric and every reward follows from a photograph's known colour and shape;
they are computed here anew, from the tables of the run.
"""

import json
import re
import socket
import statistics
import subprocess
import sys
import urllib.error
import urllib.request
from collections import defaultdict
from io import BytesIO
from pathlib import Path

import pytest
from noise_model import WORDS, build_noise_model
from own_recipe import ENVIRONMENT, OwnRun, rubricworks, write_recipe
from photographs import NOT_AN_IMAGE, TRUTH
from PIL import Image
from stub_models import CAPTIONERS, WEIGHTS, points

from rubricworks.data.tables import read_rows

pytestmark = pytest.mark.slow


def reward(caption: str, name: str) -> float:
    met = points(caption, *TRUTH[name])
    return sum(WEIGHTS[fact] for fact, is_met in met.items() if is_met) / sum(WEIGHTS.values())


def names(run: OwnRun) -> dict[str, str]:
    """sample_id → file name."""
    rows = read_rows(run.folder / "prepare", columns=["sample_id", "source"])
    return {row["sample_id"]: Path(row["source"]).name for row in rows}


def test_a_judge_that_writes_prose_ends_the_run_with_one_line_and_keeps_every_table(own_run):
    failed = own_run.failed
    assert failed.code == 2, failed
    (line,) = failed.errors
    assert "train_policy" in line
    assert "no rollout could be judged" in line
    assert "rubricworks run --resume mine" in line
    assert "not one JSON object" in failed.err
    assert "Traceback" not in failed.out + failed.err
    assert {name.split("/")[0] for name in own_run.shards_before} >= {
        "prepare",
        "caption_committee",
        "caption_student",
        "synthesize_rubrics",
    }
    redrawn = own_run.shards_before.keys() & {
        f"train_policy/{t}/part-00001.parquet" for t in ("rollouts", "scorecards")
    }
    for name, content in own_run.shards_before.items():
        if name in redrawn:  # the step in which training stopped, behind its last checkpoint
            continue
        assert (own_run.folder / name).read_bytes() == content, name


def test_the_resumed_run_ends_in_a_report_and_a_summary(own_run):
    assert own_run.finished.code == 0, own_run.finished
    assert "Traceback" not in own_run.finished.err
    assert own_run.finished.err.count("done in an earlier run") == 5
    summary = json.loads((own_run.folder / "summary.json").read_text())
    assert {"win_rate", "oracle_f1", "rubric_reward", "seconds", "promoted"} <= set(summary)
    page = (own_run.folder / "report.html").read_text()  # what it shows is tested where it is made
    assert page.rstrip().endswith("</html>")


def test_photographs_become_upright_rgb_samples_and_text_is_rejected(own_run):
    rows = {Path(row["source"]).name: row for row in read_rows(own_run.folder / "prepare")}
    assert set(rows) == set(TRUTH)
    pictures = {name: Image.open(BytesIO(row["image"])) for name, row in rows.items()}
    assert {picture.mode for picture in pictures.values()} == {"RGB"}
    assert pictures["barn.jpg"].size == (512, 333)
    assert pictures["sea.jpg"].size == (100, 160)
    assert pictures["leaf.png"].getpixel((2, 2)) == (255, 255, 255)
    (rejected,) = read_rows(own_run.folder / "prepare" / "rejected")
    assert Path(rejected["source"]).name == NOT_AN_IMAGE
    assert "not an image" in rejected["reason"]


def test_the_rubrics_hold_what_two_of_three_captioners_state_and_nothing_else(own_run):
    by_id, rows = names(own_run), read_rows(own_run.folder / "synthesize_rubrics")
    rubrics = {by_id[row["sample_id"]]: json.loads(row["rubric"]) for row in rows}
    assert set(rubrics) == set(TRUTH)
    for name, rubric in rubrics.items():
        colour, shape = TRUTH[name]
        results = {
            c["criterion"]: (c["weight"], c["evaluation_rule"].split("'")[1], set(c["reference_teachers"]))
            for c in rubric["criteria"]
        }
        assert results == {
            "colour": (3, colour, set(CAPTIONERS)),
            "shape": (2, shape, {"captioner-1", "captioner-2"}),
            "kind": (1, "photograph", set(CAPTIONERS)),
        }


def test_rewards_and_advantages_of_the_rollouts_are_those_computed_by_hand(own_run):
    by_id = names(own_run)
    rollouts = list(read_rows(own_run.folder / "train_policy" / "rollouts"))
    assert [row["step"] for row in rollouts] == [1] * 8 + [2] * 8
    unjudged, judged = rollouts[:8], rollouts[8:]
    # The first step was drawn while the judge wrote prose, and its checkpoint stands.
    assert {row["reward"] for row in unjudged} == {None}
    assert {row["advantage"] for row in unjudged} == {0.0}

    groups = defaultdict(list)
    for row in judged:
        assert row["reward"] == pytest.approx(reward(row["response"], by_id[row["sample_id"]]))
        groups[row["sample_id"]].append(row)
    assert len({row["reward"] for row in judged}) > 1
    for group in groups.values():
        rewards = [row["reward"] for row in group]
        mean, deviation = statistics.mean(rewards), statistics.stdev(rewards)
        expected = [(value - mean) / (deviation + 1e-4) for value in rewards]
        assert [row["advantage"] for row in group] == pytest.approx(expected, abs=1e-5)


def test_the_evaluation_and_the_summary_are_those_computed_by_hand(own_run):
    by_id = names(own_run)
    responses = list(read_rows(own_run.folder / "score" / "responses"))
    assert len(responses) == 3 * 2 * 2  # held out, models, decodings
    captions = {(row["sample_id"], row["decoding"], row["model"]): row["response"] for row in responses}
    scores = {
        (row["sample_id"], row["decoding"], row["model"], row["scorer"]): row["value"]
        for row in read_rows(own_run.folder / "score")
    }
    assert {scorer for *_, scorer in scores} == {"rubric", "arena", "length"}
    greedy = defaultdict(list)
    for (sample_id, decoding, model), caption in captions.items():
        name = by_id[sample_id]
        rubric_reward = scores[sample_id, decoding, model, "rubric"]
        assert rubric_reward == pytest.approx(reward(caption, name))
        if model == "policy":
            actual = sum(points(caption, *TRUTH[name]).values())
            base = sum(points(captions[sample_id, decoding, "base"], *TRUTH[name]).values())
            win = scores[sample_id, decoding, model, "arena"]
            assert win == (1.0 if actual > base else 0.0 if actual < base else 0.5)
            if decoding == "greedy":
                greedy["win"].append(win)
        if decoding == "greedy":
            greedy[model].append(rubric_reward)
    summary = json.loads((own_run.folder / "summary.json").read_text())
    assert summary["win_rate"]["value"] == pytest.approx(statistics.mean(greedy["win"]))
    for model in ("base", "policy"):
        assert summary["rubric_reward"][model] == pytest.approx(statistics.mean(greedy[model]))


def test_the_result_is_a_plain_hugging_face_model_folder(own_run):
    from safetensors import safe_open
    from transformers import AutoModelForImageTextToText

    folder = own_run.folder / "train_policy" / "model"
    assert {"config.json", "tokenizer.json", "model.safetensors"} <= {path.name for path in folder.iterdir()}
    model = AutoModelForImageTextToText.from_pretrained(folder)
    with safe_open(folder / "model.safetensors", "pt") as saved:
        assert set(saved.keys()) <= set(model.state_dict())


def test_served_model_that_answers_noise_ends_in_dead_letters_and_one_line(photographs, tmp_path):
    model = build_noise_model(tmp_path / "noise")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # A home without a cache: the list of models of `transformers serve` is then an error 500, its chat works.
    environment = {**ENVIRONMENT, "HF_HOME": str(tmp_path / "empty-home")}
    program = [str(Path(sys.executable).with_name("transformers")), "serve", str(model), "--device", "cpu"]
    with (tmp_path / "serve.log").open("w") as log:
        server = subprocess.Popen(
            [*program, "--host", "127.0.0.1", "--port", str(port)], env=environment, stdout=log, stderr=log
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/health", server)
        every = dict.fromkeys((*CAPTIONERS, "writer", "judge", "pairwise"), str(model))
        recipe = write_recipe(tmp_path / "my.yaml", photographs, f"http://127.0.0.1:{port}/v1", every)
        changes = ["--set", "committee.captions_each=3", "--set", "data.max_train=3", "--set", "data.held_out=1"]
        changes += ["--set", f'committee.teachers=[{{url: "http://127.0.0.1:{port}/v1", model: "{model}"}}]']
        changes += ["--set", "committee.teachers.0.temperature=1.0", "--set", "rubric.writer.temperature=1.0"]
        outcome = rubricworks("run", recipe, "--run", "noise", *changes, cwd=tmp_path)
    finally:
        server.terminate()
        server.wait(20)
    assert outcome.code == 2, outcome
    (line,) = outcome.errors
    assert re.search(r"stage synthesize_rubrics failed: no rubrics came of \d samples", line)
    assert "malformed" in line
    assert "rubricworks run --resume noise" in line
    assert "Traceback" not in outcome.out + outcome.err
    run = tmp_path / "runs" / "noise"
    captions = [row["caption"] for row in read_rows(run / "caption_committee")]
    assert captions
    assert {word for caption in captions for word in caption.split()} <= set(WORDS)
    letters = list(read_rows(run / "synthesize_rubrics" / "dead_letters"))
    assert letters
    assert {row["reason"] for row in letters} <= {"malformed", "truncated"}
    assert any(row["raw"] for row in letters)


def wait_for(url: str, server: subprocess.Popen) -> None:
    while server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=120):
                return
        except (urllib.error.URLError, OSError):
            continue
    pytest.fail(f"the server ended with exit code {server.returncode}")
