"""Evaluations that are killed: the tables and the board of one that never was, and no benchmark asked twice."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from base64 import b64encode
from collections import Counter
from hashlib import sha256

import pyarrow.parquet as pq
import pytest
from asked_stages import tables
from audited import write_stage_table
from lmms_stand_in import write_launcher
from scripted_server import fail, say
from synthetic_run import picture, sample

from rubricworks.data.tables import read_rows
from rubricworks.world.scene.benchmarks_export import export_benchmarks

pytestmark = pytest.mark.long

KILLS, SAMPLES, MODELS = 10, 500, ("plain", "bold")


def judged(_, body):
    """The same to the same question; one caption in forty is refused for good."""
    captions = re.findall(r"(?:plain|bold) caption \d+", json.dumps(body["messages"]))
    number = int(sha256(" ".join(captions).encode()).hexdigest(), 16)
    if number % 40 == 0:
        return fail(400, "too long")
    return say(json.dumps({"reason": "r", "judgment": "AB"[number % 2]}) if len(captions) == 2 else str(number % 11))


class Evaluation:
    """The command, and what its server has heard."""

    def __init__(self, server, out, *options, environment=None):
        self.server, self.out = server, out
        self.command = [sys.executable, "-m", "rubricworks.cli", "evaluate", *map(str, options), "--out", str(out)]
        self.environment = {**os.environ, **(environment or {})}

    def start(self):
        output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        return subprocess.Popen(self.command, **output, env=self.environment, start_new_session=True)

    def kill_when(self, moment, *, whole_session=True):
        process = self.start()
        while not moment():
            assert process.poll() is None, process.stderr.read().decode()
            time.sleep(0.002)
        (os.killpg if whole_session else os.kill)(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not (self.out / "score" / "done.json").exists()

    def finish(self):
        process = self.start()
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()

    def questions(self):
        return {request.text for request in self.server.chats}


def test_killed_ten_times_it_ends_with_the_same_tables_and_board(serve, tmp_path):
    rows = [sample(f"s{number}", picture((number % 250, number // 250, 9))) for number in range(SAMPLES)]
    write_stage_table(tmp_path / "samples", "samples", rows)
    for model in MODELS:
        lines = [{"sample_id": f"s{number}", "response": f"{model} caption {number}"} for number in range(SAMPLES)]
        (tmp_path / f"{model}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    server = serve(judged)
    options = [f"{model}={tmp_path / model}.jsonl" for model in MODELS] + ["--on", tmp_path / "samples"]
    options += ["--with", "likert", "--with", "arena", "--judge", f"judge@{server.url}"]
    whole = Evaluation(server, tmp_path / "whole", *options)
    whole.finish()
    questions = whole.questions()
    assert len(questions) == len(server.chats) == 3 * SAMPLES
    server.heard.clear()

    cut = Evaluation(server, tmp_path / "cut", *options)
    for number in range(KILLS):
        reached = (number + 1) * len(questions) / (KILLS + 1)
        cut.kill_when(lambda reached=reached: len(cut.questions()) >= reached)
    cut.finish()

    expected = tables(whole.out)
    assert sum("dead_letters/part" in name for name in expected) > 0
    written = tables(cut.out)
    assert sorted(written) == sorted(expected)
    assert [name for name in expected if written[name] != expected[name]] == []
    assert (cut.out / "score" / "scores.json").read_bytes() == (whole.out / "score" / "scores.json").read_bytes()
    assert cut.questions() == questions


def test_killed_in_its_second_benchmark_it_asks_only_that_one_again(serve, tmp_path):
    """The benchmarks' own program outlives the kill; what it writes after it does not count."""
    source, released = export_benchmarks(tmp_path / "world", seed=1, count=4), []
    counts, boxes = (
        {b64encode(row["image"]).decode() for row in pq.read_table(source / f"scene_{name}.parquet").to_pylist()}
        for name in ("count", "box")
    )

    def answered(_, body):
        reply = say("\\boxed{1}")
        reply.hold = (lambda: bool(released)) if image_of(body) in boxes else None
        return reply

    def image_of(body):
        content = body["messages"][0]["content"]
        return next(part["image_url"]["url"] for part in content if part["type"] == "image_url").partition(",")[2]

    def asked(images):
        return Counter(image for request in server.chats if (image := image_of(request.body)) in images)

    server = serve(answered)
    write_stage_table(tmp_path / "samples", "samples", [sample("a", picture("red"))])
    benchmarks = {"set": "scene-5", "source": str(source), "tasks": ["scene_count", "scene_box"]}
    (tmp_path / "scorers.yaml").write_text(json.dumps({"scorers": {"benchmarks": [benchmarks]}}))
    options = [f"base=m@{server.url}", "--on", tmp_path / "samples", "--with", tmp_path / "scorers.yaml"]
    variables = {"RUBRICWORKS_LMMS_EVAL": str(write_launcher(tmp_path))}
    evaluation = Evaluation(server, tmp_path / "out", *options, environment=variables)
    evaluation.kill_when(lambda: bool(asked(boxes)), whole_session=False)
    released.append(True)
    evaluation.finish()
    assert asked(counts) == Counter(dict.fromkeys(counts, 1))
    assert set(asked(boxes)) == boxes
    rows = [row for row in read_rows(tmp_path / "out" / "score") if row["scorer"] == "benchmark_scene-5"]
    assert len(rows) == 8
    assert {row["reason"] for row in rows} == {None}
