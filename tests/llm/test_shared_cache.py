"""Two processes with one cache: each sees what the other commits while both run, whether it writes itself or rests."""

import json
import sqlite3
import time
from collections import Counter

import pytest
from forked import Forked
from scripted_server import say

PROGRAM = """
import asyncio, sys
from pathlib import Path
from rubricworks.llm import ChatClient
client = ChatClient(sys.argv[1], "m", cache=Path(sys.argv[2]))
async def ask(first, last):
    asks = [client.chat([{"role": "user", "content": "?"}], seed=seed) for seed in range(first, last)]
    return sum(reply.cached for reply in await asyncio.gather(*asks))
for line in sys.stdin:
    print(asyncio.run(ask(*map(int, line.split()))), flush=True)
"""


class Process:
    """Asks the questions of a range when told to, and says how many the cache knew."""

    def __init__(self, server, cache) -> None:
        self.process = Forked(PROGRAM, server.url, cache)

    def ask(self, first: int, last: int) -> int:
        self.process.stdin.write(f"{first} {last}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self) -> int:
        self.process.end_input()
        return self.process.wait(timeout=300)


def committed(cache) -> int:
    with sqlite3.connect(cache, timeout=30) as database:
        (count,) = database.execute("SELECT count(*) FROM answers").fetchone()
    database.close()
    return count


@pytest.mark.slow
@pytest.mark.parametrize("busy", [True, False], ids=["writing", "resting"])
def test_a_process_sees_what_another_commits_while_both_run(serve, tmp_path, busy):
    server, cache = serve(lambda number, body: say(f"{body['seed']}")), tmp_path / "answers.sqlite"
    process, other = Process(server, cache), Process(server, cache)
    fresh = 10_000
    for first in (0, 1_000, 2_000):
        # Each has looked for questions near these before, and has its own idea of what the file holds.
        assert (process.ask(first, first + 50), other.ask(first + 100, first + 150)) == (0, 0)
        before = fresh
        while committed(cache) < 100 * (1 + first // 1_000) + (fresh - 10_000):
            time.sleep(0.02)
        until = time.monotonic() + 1.3
        while time.monotonic() < until:
            if busy:
                assert process.ask(fresh, fresh + 1) + other.ask(fresh + 1, fresh + 2) == 0
                fresh += 2
            time.sleep(0.01)
        assert (fresh > before) == busy
        assert process.ask(first + 100, first + 150) == 50
        assert other.ask(first, first + 50) == 50
    assert (process.end(), other.end()) == (0, 0)
    assert set(Counter(request.body["seed"] for request in server.chats).values()) == {1}
    with sqlite3.connect(cache) as database:
        numbers = {int(json.loads(answer)[0]) for (answer,) in database.execute("SELECT answer FROM answers")}
    assert numbers == {request.body["seed"] for request in server.chats}


def test_the_first_answer_to_a_question_stays_when_two_processes_asked_it_at_once(serve, tmp_path):
    def script(number, body):
        answer = say(f"answer {number}")
        answer.hold = lambda: len(server.chats) == 40
        return answer

    server, cache = serve(script), tmp_path / "answers.sqlite"
    first, other = Process(server, cache), Process(server, cache)
    for process in (first, other):
        process.process.stdin.write("0 20\n")
        process.process.stdin.flush()
    assert [int(process.process.stdout.readline()) for process in (first, other)] == [0, 0]
    assert (first.end(), other.end()) == (0, 0)
    assert len(server.chats) == 40
    assert committed(cache) == 20
    third = Process(server, cache)
    assert third.ask(0, 20) == 20
    assert third.end() == 0
