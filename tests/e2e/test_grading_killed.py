"""Captions and verdicts of a process that is killed twenty times: the tables of one that never was.

A question is in flight until its answer is committed to the cache, with others, every 0.2 s, or its shard to the table.
Only such questions may be asked again.
"""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from asked_stages import describe, digest_of, prepare, tables
from key_search import VARIABLE
from scripted_server import fail, say
from support_paths import SUPPORT_PATHS

from rubricworks.llm import read_spending

pytestmark = pytest.mark.long

KILLS = 20
MODELS, AT_ONCE = 2, 4
DELAY_S = 0.05
SAMPLES, SHARD = 98, 48
PROGRAM = """
import json, sys
from pathlib import Path
from asked_stages import caption
from grading_stage import launch_here
run, samples, models, shard = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])
caption(run, samples, teachers=models, shard_size=shard)
launch_here(run, samples, {"judges": models, "shard_size": shard})
"""


def answer(number, body):
    """The same to the same question, which stands in it; one in twelve is refused for good."""
    digest = digest_of(body)
    if int(digest, 16) % 12 == 0:
        reply = fail(400, f"too long: caption {digest}")
    elif "evaluation_rule" in json.dumps(body["messages"]):
        verdicts = [{"id": n + 1, "reasoning": f"caption {digest}", "score": int(digest[n], 16) % 2} for n in range(3)]
        reply = say(json.dumps({"verdicts": verdicts}))
    else:
        reply = describe(number, body)
    reply.delay = DELAY_S
    return reply


class Killed:
    """A run of the program, and what its server has heard."""

    def __init__(self, server, run: Path, samples: str) -> None:
        models = [
            {"url": server.url, "model": f"m{number}", "concurrency": AT_ONCE, "api_key_env": VARIABLE}
            for number in range(MODELS)
        ]
        self.server, self.run = server, run
        self._arguments = [sys.executable, "-c", PROGRAM, str(run), samples, json.dumps(models), str(SHARD)]

    def start(self) -> subprocess.Popen:
        path = os.pathsep.join([*SUPPORT_PATHS, os.environ.get("PYTHONPATH", "")])
        self.since = len(self.server.chats)
        run_log = self.run.with_suffix(".log").open("ab")
        return subprocess.Popen(self._arguments, env={**os.environ, "PYTHONPATH": path}, stderr=run_log)

    def asked(self, since: int = 0) -> set[str]:
        return {digest_of(request.body) for request in self.server.chats[since:]}

    def committed(self) -> set[str]:
        """Questions whose answer, or dead letter, is on disk."""
        content = "".join(json.loads(answer)[0] for answer in self._cached())
        for shard in self.run.rglob("part-*.parquet"):
            content += str(pq.read_table(shard).to_pylist())
        return {digest for digest in self.asked() if f"caption {digest}" in content}

    def _cached(self) -> list[str]:
        """Read from a copy: to look at a file that a killed process left mends it."""
        copy = self.run.with_suffix(".copy")
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for file in self.run.glob("llm_cache.sqlite*"):
            shutil.copy(file, copy)
        with sqlite3.connect(copy / "llm_cache.sqlite") as database:
            if not database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'answers'").fetchone()[0]:
                return []
            return [row[0] for row in database.execute("SELECT answer FROM answers")]


def test_killed_twenty_times_only_calls_in_flight_are_repeated(serve, judge_key, tmp_path, record_property):
    samples, server, dice = prepare(tmp_path / "samples", SAMPLES), serve(answer), random.Random(20)
    whole = Killed(server, tmp_path / "whole", samples)
    assert whole.start().wait() == 0
    questions = whole.asked()
    assert len(server.chats) == len(questions) == MODELS * (2 * SAMPLES - 2)
    unbroken = tables(tmp_path / "whole")
    assert sum("dead_letters/part" in name for name in unbroken) == 5
    server.heard.clear()

    killed = Killed(server, tmp_path / "killed", samples)
    digests, uncommitted, in_flight, repeats = set(), set(), [], []
    for moment in sorted(dice.uniform(0, len(questions) + 10) for _ in range(KILLS)):
        process = killed.start()
        while len(killed.asked()) < min(moment, len(questions)) and process.poll() is None:
            time.sleep(0.002)
        time.sleep(dice.uniform(0, 0.4))
        process.kill()
        assert process.wait() == -signal.SIGKILL
        again = digests & killed.asked(killed.since)
        assert again <= uncommitted
        digests = killed.asked()
        uncommitted = digests - killed.committed()
        repeats.append(len(again))
        in_flight.append(len(uncommitted))
    assert killed.start().wait() == 0
    repeats.append(len(digests & killed.asked(killed.since)))

    assert tables(tmp_path / "killed") == unbroken
    assert killed.asked() == questions
    assert len(server.chats) == len(questions) + sum(repeats)
    # Eight at a time, what these answer in the fifth of a second before a commit, and a shard's dead letters.
    assert max(in_flight) < 2 / 3 * MODELS * SHARD
    assert sum(repeats) < KILLS * MODELS * SHARD / 3
    total = sum(row["requests"] for row in read_spending(tmp_path / "killed" / "spending.sqlite"))
    assert len(server.chats) - KILLS * MODELS * AT_ONCE * 8 <= total <= len(server.chats)
    record_property("in flight at each kill", in_flight)
    record_property("asked again after each kill", repeats[1:])
    record_property("requests", (len(questions), len(server.chats), total))
