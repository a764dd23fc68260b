"""What goes from a cache and what stays, and that a run which uses it meanwhile only asks again."""

import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from scripted_server import say
from stored_rows import DAY, NOW, eventually, fill, key, left

from rubricworks.errors import UserError
from rubricworks.llm import pruning
from rubricworks.llm.cache import AnswerCache
from rubricworks.llm.pruning import prune
from rubricworks.llm.stored_answers import cache_figures, export_answers, stored_answers

ROWS = [(model, age * DAY, "x" * 3_000) for age in (40, 3, 30, 1, 20, 31) for model in ("a", "b")]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "c.sqlite"


@pytest.fixture
def at_now(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: NOW + 0.5)


@pytest.mark.parametrize(
    ("criteria", "goes"),
    [
        ({"older_than_s": 30 * DAY}, lambda model, days: days > 30),
        ({"older_than_s": 0.1}, lambda model, days: True),
        ({"older_than_s": 100 * DAY}, lambda model, days: False),
        ({"model": "a"}, lambda model, days: model == "a"),
        ({"model": "c"}, lambda model, days: False),
        ({"model": "a", "older_than_s": 20 * DAY}, lambda model, days: model == "a" and days > 20),
        ({"keep_bytes": 0}, lambda model, days: True),
        ({"keep_bytes": 1e9}, lambda model, days: False),
        ({"keep_bytes": 0, "model": "b"}, lambda model, days: model == "b"),
        ({"keep_bytes": 1e9, "older_than_s": 25 * DAY}, lambda model, days: days > 25),
        ({"keep_bytes": 0, "older_than_s": 100 * DAY, "model": "b"}, lambda model, days: model == "b"),
    ],
)
def test_what_goes_is_what_the_criteria_say(path, at_now, criteria, goes):
    fill(path, ROWS)
    stays = [number for number, (model, age, _) in enumerate(ROWS) if not goes(model, age / DAY)]
    promised = prune(path, **criteria, dry_run=True)
    assert left(path) == list(range(len(ROWS)))
    pruned = prune(path, **criteria)
    assert left(path) == stays
    assert pruned.answers == promised.answers == len(ROWS) - len(stays)
    assert pruned.answer_bytes == promised.answer_bytes
    assert pruned.answer_bytes == pytest.approx(3_100 * pruned.answers, rel=0.05)


@pytest.mark.parametrize("length", [100, 1_500, 9_000])
def test_keep_bytes_leaves_the_newest_and_a_file_of_about_that_size(path, length):
    fill(path, [("m", 37 * number % 1000, "x" * (length + number % 300)) for number in range(1000)])
    before, wanted = path.stat().st_size, 0.4 * path.stat().st_size
    pruned = prune(path, keep_bytes=wanted)
    assert (pruned.bytes_before, pruned.bytes_after, pruned.kept_room) == (before, path.stat().st_size, "")
    assert pruned.bytes_after == pytest.approx(wanted, rel=0.1)
    newest = sorted(range(1000), key=lambda number: 37 * number % 1000)[: 1000 - pruned.answers]
    assert left(path) == sorted(newest)


def test_without_a_criterion_nothing_goes(path):
    fill(path, ROWS)
    with pytest.raises(ValueError, match="nothing says"):
        prune(path)
    assert len(left(path)) == len(ROWS)


def test_a_cache_in_use_asks_again_for_what_was_pruned_and_never_fails(path):
    fill(path, [("m", 0, "x" * 500)] * 3000)
    cache, other = AnswerCache(path), AnswerCache(path)
    cache.put(key(9_000), "m", '["fresh",1,1,0]')
    assert eventually(lambda: key(9_000) in {answer.key for answer in stored_answers(path)})
    assert cache.get(key(7)) is not None
    pruned = prune(path, keep_bytes=0)
    assert (pruned.answers, pruned.kept_room) == (3001, "")
    assert pruned.bytes_after < pruned.bytes_before / 20
    assert eventually(lambda: cache.get(key(7)) is None)
    assert other.get(key(7)) is None
    other.put(key(7), "m", '["again",1,1,0]')  # takes an id that the other cache has seen
    other.close()
    assert cache.get(key(7)) in (None, '["again",1,1,0]')
    cache.put(key(7), "m", '["later",1,1,0]')
    cache.put(key(8), "m", '["eight",1,1,0]')
    cache.close()
    assert {answer.raw for answer in stored_answers(path)} == {"again", "eight"}
    assert cache_figures(path).free_bytes == 0


PROGRAM = """
import asyncio, sys
from pathlib import Path
from rubricworks.llm import ChatClient
async def run(url, cache):
    async with ChatClient(url, "m", cache=Path(cache)) as client:
        for turn in range(8):
            ask = [client.chat([{"role": "user", "content": "?"}], None, seed) for seed in range(turn * 20, 400)]
            assert {reply.value for reply in await asyncio.gather(*ask)} == {"yes" * 400}
            print(turn, flush=True)
            await asyncio.sleep(0.3)
    print(client.totals.calls, client.totals.failed)
asyncio.run(run(*sys.argv[1:]))
"""


def test_pruning_and_reading_all_the_time_does_not_harm_a_run(serve, path, tmp_path):
    server = serve([say("yes" * 400)])
    program = [sys.executable, "-c", PROGRAM, server.url, str(path)]
    run = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout.readline() == "0\n"
    gone = 0
    while run.poll() is None:
        cache_figures(path)
        export_answers(path, tmp_path / "out.jsonl")
        gone += prune(path, keep_bytes=100_000).answers
    out, err = run.communicate(timeout=60)
    assert (run.returncode, err[-600:]) == (0, "")
    calls, failed = map(int, out.split()[-2:])
    assert (calls, failed) == (sum(400 - turn * 20 for turn in range(8)), 0)
    assert 400 < len(server.chats) <= calls
    assert gone > 0
    prune(path, keep_bytes=0)
    assert left(path) == []


def test_a_writer_that_holds_the_file_is_waited_for_and_then_named(path):
    fill(path, ROWS)
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(UserError, match=r"c\.sqlite was locked for 0\.1 s by another process"):
            prune(path, model="a", patience_s=0.1)
        assert cache_figures(path).answers == len(ROWS)
        threading.Timer(0.2, writer.execute, ["COMMIT"]).start()
        assert prune(path, model="a", patience_s=30).answers == len(ROWS) / 2


def test_who_writes_is_not_kept_waiting_for_who_reads(path, monkeypatch):
    monkeypatch.setattr(pruning, "_TRIES", 5)
    fill(path, ROWS)
    over, refused = threading.Event(), []

    def write():
        with closing(sqlite3.connect(path, timeout=3, isolation_level=None)) as writer:
            while not over.wait(0.01):
                try:
                    writer.execute("UPDATE answers SET made = made + 1 WHERE model = 'b'")
                except sqlite3.OperationalError as error:
                    refused.append(error)

    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert len(reader.execute("SELECT id FROM answers").fetchall()) == len(ROWS)
        writing = threading.Thread(target=write)
        writing.start()
        pruned = prune(path, model="a", patience_s=4)
        over.set()
        writing.join()
    assert (pruned.answers, pruned.kept_room, refused) == (len(ROWS) / 2, "another process is using it", [])
    assert left(path) == [number for number, (model, _, _) in enumerate(ROWS) if model == "b"]


def test_rewriting_a_large_file_beside_a_run_is_given_up_and_done_when_the_run_is_over(path, monkeypatch):
    monkeypatch.setattr(pruning, "_REWRITE_BESIDE_OTHERS_S", -1)
    fill(path, [("ab"[number % 2], 0, "x" * 200) for number in range(8000)])
    run = AnswerCache(path)
    assert run.get(key(2)) is not None
    first = prune(path, model="b")
    assert (first.answers, first.kept_room) == (4000, "another process is using it")
    assert first.bytes_after >= first.bytes_before
    assert eventually(lambda: run.get(key(3)) is None)
    assert run.get(key(2)) is not None
    run.close()
    second = prune(path, model="b")
    assert (second.answers, second.kept_room) == (0, "")
    assert second.bytes_after < 0.6 * first.bytes_before
    assert left(path) == list(range(0, 8000, 2))
