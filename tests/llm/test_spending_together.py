"""One ledger for several processes, one of them killed, and a ledger whose disk is full or read-only."""

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from forked import Forked
from scripted_server import say

from rubricworks.errors import UserError
from rubricworks.llm import Budget, ChatClient, Endpoint, Spending, read_spending

ASK = [{"role": "user", "content": "how many?"}]
USED = 40
"""Tokens of a call: less than what is reserved for one."""
PROGRAM = """
import asyncio, json, sys
from pathlib import Path
from rubricworks.llm import Budget, ChatClient, ChatError, Endpoint, Spending
url, ledger, name, cap, calls, concurrency = sys.argv[1:]
spending = Spending(Path(ledger), name, Budget(tokens=int(cap) or None))
endpoint = Endpoint(url=url, model="m", max_tokens=50, concurrency=int(concurrency))
window = asyncio.Semaphore(8)
async def ask(client, seed):
    async with window:
        return await client.chat([{"role": "user", "content": name}], seed=seed)
async def run():
    async with ChatClient(endpoint, purpose="judge", spending=spending) as client:
        replies = await asyncio.gather(*(ask(client, seed) for seed in range(int(calls))), return_exceptions=True)
        print(json.dumps([getattr(reply, "error_class", "good") for reply in replies]))
asyncio.run(run())
spending.close()
"""


def start(server, ledger, name, *, cap=0, calls=100, concurrency=4):
    return Forked(PROGRAM, server.url, ledger, name, cap, calls, concurrency)


def slow(seconds):
    answer = say("good", tokens=(25, USED - 25))
    answer.delay = seconds
    return answer


def read_spent(ledger) -> int:
    return sum(row["prompt_tokens"] + row["completion_tokens"] for row in read_spending(ledger))


def test_processes_add_to_one_ledger_and_nothing_is_lost(serve, tmp_path):
    server, ledger = serve([slow(0.01)]), tmp_path / "spending.sqlite"
    several = [start(server, ledger, name, calls=200) for name in ("one", "one", "two")]
    assert [process.wait(timeout=300) for process in several] == [0, 0, 0]
    rows = {row["stage"]: row for row in read_spending(ledger)}
    assert {name: row["calls"] for name, row in rows.items()} == {"one": 400, "two": 200}
    assert read_spent(ledger) == USED * len(server.chats) == 24_000


def test_processes_keep_a_cap_together_but_for_what_they_spend_between_two_looks(serve, tmp_path):
    server, ledger, cap = serve([slow(0.03)]), tmp_path / "spending.sqlite", 20_000
    several = [start(server, ledger, name, cap=cap, calls=900) for name in ("one", "two", "three")]
    outcomes = [json.loads(process.output()) for process in several]
    good = [outcome.count("good") for outcome in outcomes]
    assert [good + outcome.count("budget") for good, outcome in zip(good, outcomes, strict=True)] == [900] * 3
    assert min(good) > 0
    assert sum(good) == len(server.chats)
    # Each alone would have spent the whole cap.
    assert 0.9 * cap < read_spent(ledger) == USED * sum(good) < 1.5 * cap


def test_what_a_killed_process_spent_counts_but_for_its_last_moment(serve, tmp_path):
    server, ledger = serve([slow(0.05)]), tmp_path / "spending.sqlite"
    killed = start(server, ledger, "one", calls=10_000, concurrency=2)
    while len(server.chats) < 60:
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    request_count = len(server.chats)
    # Two in flight, and at forty a second those of a quarter of a second and of one call.
    assert request_count - 20 <= read_spent(ledger) // USED <= request_count - 2

    server.script = [slow(0)]
    goes_on = start(server, ledger, "one", cap=read_spent(ledger) + 1_000, calls=50)
    good = json.loads(goes_on.output()).count("good")
    assert 0 < good <= 1_000 // USED
    assert read_spent(ledger) == read_spending(ledger)[0]["requests"] * USED


def test_what_a_killed_process_half_wrote_is_rolled_back_by_the_run_alone(tmp_path):
    ledger = tmp_path / "spending.sqlite"
    Spending(ledger, "stage").close()
    program = (
        f"import os, signal, sqlite3\nfile = sqlite3.connect({str(ledger)!r}, isolation_level=None)\n"
        "file.execute('PRAGMA cache_size = 1')\nfile.execute('BEGIN IMMEDIATE')\n"
        "for n in range(3_000):\n"
        "    file.execute(\"INSERT INTO spending VALUES (?, 'p', 'm', 1, 1, 1, 1, 1, 1, 1, 1)\", (str(n) * 20,))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGKILL
    journal = tmp_path / "spending.sqlite-journal"
    half_written = journal.read_bytes()
    assert half_written
    with contextlib.suppress(UserError):  # depends on the pages that were written
        read_spending(ledger)
    assert journal.read_bytes() == half_written
    Spending(ledger, "stage").close()
    assert read_spending(ledger) == []
    assert not journal.exists()


def test_calls_go_on_while_another_process_holds_the_ledger(serve, tmp_path):
    endpoint = Endpoint(url=serve([slow(0.02)]).url, model="m", concurrency=2)
    spending = Spending(tmp_path / "spending.sqlite", "stage", Budget(tokens=10**9))
    other = sqlite3.connect(tmp_path / "spending.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    asyncio.run(asyncio.wait_for(ask(endpoint, spending, 60), 30))
    assert read_spending(tmp_path / "spending.sqlite") == []
    other.execute("ROLLBACK")
    spending.close()
    assert [row["calls"] for row in read_spending(tmp_path / "spending.sqlite")] == [60]


async def ask(endpoint, spending, count):
    async with ChatClient(endpoint, purpose="judge", spending=spending) as client:
        await asyncio.gather(*(client.chat(ASK, seed=seed) for seed in range(count)))


def test_a_ledger_on_a_full_disk_is_named_and_what_it_held_and_owes_is_kept(serve, disk):
    endpoint = Endpoint(url=serve([slow(0)]).url, model="m")
    ledger = disk.path / "spending.sqlite"
    spending = Spending(ledger, "stage", Budget(tokens=10**9))
    asyncio.run(ask(endpoint, spending, 5))
    spending.write()
    disk.fill()
    asyncio.run(ask(endpoint, spending, 7))
    for _ in range(2):
        with pytest.raises(UserError, match=rf"the ledger {ledger} cannot be written \(.*full\); make room"):
            spending.write()
    assert [row["calls"] for row in read_spending(ledger)] == [5]

    disk.make_room()
    Spending(ledger, "other").close()  # nobody holds a lock
    spending.close()
    assert [(row["calls"], row["prompt_tokens"]) for row in read_spending(ledger)] == [(12, 12 * 25)]


def test_a_ledger_that_has_become_read_only_is_named_and_can_be_read(serve, disk):
    endpoint = Endpoint(url=serve([slow(0)]).url, model="m")
    ledger = disk.path / "spending.sqlite"
    spending = Spending(ledger, "stage")
    asyncio.run(ask(endpoint, spending, 5))
    spending.close()
    disk.read_only()
    assert [row["calls"] for row in read_spending(ledger)] == [5]
    again = Spending(ledger, "stage")
    asyncio.run(ask(endpoint, again, 1))
    with pytest.raises(UserError, match=rf"the ledger {ledger} cannot be written \(.*readonly.*make it writable"):
        again.close()


@pytest.mark.parametrize("trouble", ["full", "read-only"])
def test_a_ledger_that_cannot_be_made_is_named(disk, trouble):
    disk.fill() if trouble == "full" else disk.read_only()
    with pytest.raises(UserError, match=rf"the ledger {disk.path}/spending\.sqlite cannot be written"):
        Spending(disk.path / "spending.sqlite", "stage")


def test_a_full_disk_stops_the_next_call_that_would_be_noted_in_one_line(serve, disk):
    server, lines = serve([slow(0.02)]), []
    spending = Spending(disk.path / "spending.sqlite", "stage")

    async def run():
        async with ChatClient(Endpoint(url=server.url, model="m", concurrency=2), spending=spending) as client:
            for seed in range(1_000):
                await client.chat(ASK, seed=seed)

    disk.fill()
    with pytest.raises(UserError) as caught:
        asyncio.run(run())
    lines.append(str(caught.value))
    assert "\n" not in lines[0]
    assert "database or disk is full" in lines[0]
    assert len(server.chats) < 100


def test_two_ledgers_begun_at_once_do_not_collide(tmp_path):
    program = (
        "import sys; from pathlib import Path; from rubricworks.llm import Spending\n"
        "Spending(Path(sys.argv[1]), 's').close()"
    )
    processes = [Forked(program, tmp_path / "spending.sqlite") for _ in range(4)]
    assert [process.wait(timeout=300) for process in processes] == [0] * 4
    with sqlite3.connect(tmp_path / "spending.sqlite") as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert os.listdir(tmp_path) == ["spending.sqlite"]
