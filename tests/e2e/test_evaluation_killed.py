"""An evaluation of 1,000 responses by judges that is killed ten times: the tables and the board of one that never was."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from hashlib import sha256

import pytest
from asked_stages import tables
from audited import write_stage_table
from scripted_server import fail, say
from synthetic_run import picture, sample

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
    """The command, and what its judge has heard."""

    def __init__(self, server, folder, inputs):
        self.server, self.out = server, folder / "out"
        models = [f"{model}={inputs / model}.jsonl" for model in MODELS]
        options = ["--on", inputs / "samples", "--with", "likert", "--with", "arena", "--judge", f"judge@{server.url}"]
        arguments = ["-m", "rubricworks.cli", "evaluate", *models, *options, "--out", self.out]
        self.command = [sys.executable, *map(str, arguments)]

    def start(self):
        return subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)

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
    whole = Evaluation(server, tmp_path / "whole", tmp_path)
    whole.finish()
    questions = whole.questions()
    assert len(questions) == len(server.chats) == 3 * SAMPLES
    server.heard.clear()

    cut = Evaluation(server, tmp_path / "cut", tmp_path)
    for number in range(KILLS):
        process = cut.start()
        while len(cut.questions()) < (number + 1) * len(questions) / (KILLS + 1):
            assert process.poll() is None, process.stderr.read().decode()
            time.sleep(0.002)
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not (cut.out / "score" / "done.json").exists()
    cut.finish()

    expected = tables(whole.out)
    assert sum("dead_letters/part" in name for name in expected) > 0
    written = tables(cut.out)
    assert sorted(written) == sorted(expected)
    assert [name for name in expected if written[name] != expected[name]] == []
    assert (cut.out / "score" / "scores.json").read_bytes() == (whole.out / "score" / "scores.json").read_bytes()
    assert cut.questions() == questions
