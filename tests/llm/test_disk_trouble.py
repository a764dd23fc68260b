"""A full or read-only disk under a cache, or under a whole stage: one clear line, and nothing committed is lost."""

import asyncio
import json
import sqlite3
import time

import pytest
from asked_stages import caption, count_requests, describe, prepare, tables
from scripted_server import say

from rubricworks.errors import UserError
from rubricworks.llm import ChatClient

ASK = [{"role": "user", "content": "?"}]
LONG = "x" * 4_000


def long_answer(number, body):
    return say(f"{body['seed']}: {LONG}")


async def ask(url, cache, seeds, at_once=8):
    window = asyncio.Semaphore(at_once)

    async def one(client, seed):
        async with window:
            return (await client.chat(ASK, seed=seed)).value

    async with ChatClient(url, "m", cache=cache) as client:
        return await asyncio.gather(*(one(client, seed) for seed in seeds))


def cached_numbers(cache) -> set[int]:
    """Seeds of the answers in the file, which is whole."""
    with sqlite3.connect(cache) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        texts = [json.loads(answer)[0] for (answer,) in database.execute("SELECT answer FROM answers")]
    database.close()
    return {int(text.split(":")[0]) for text in texts if text.endswith(LONG)}


@pytest.mark.slow
def test_a_cache_on_a_full_disk_is_named_and_keeps_what_was_committed(serve, disk):
    server, cache = serve(long_answer), disk.path / "answers.sqlite"
    asyncio.run(ask(server.url, cache, range(20)))
    assert cached_numbers(cache) == set(range(20))
    disk.fill(leaving=200_000)
    message = rf"the cache {cache} cannot be used \(database or disk is full\); make room"
    with pytest.raises(UserError, match=message) as caught:
        asyncio.run(ask(server.url, cache, range(5_000)))
    assert "\n" not in str(caught.value)
    assert len(server.chats) < 5_000
    committed = cached_numbers(cache)
    assert committed >= set(range(20))

    with pytest.raises(UserError, match="full"):
        asyncio.run(ask(server.url, cache, range(4_000, 5_000)))
    disk.make_room()
    server.heard.clear()
    answers = asyncio.run(ask(server.url, cache, range(100)))
    assert [int(answer.split(":")[0]) for answer in answers] == list(range(100))
    assert {request.body["seed"] for request in server.chats} == set(range(100)) - committed
    assert cached_numbers(cache) >= set(range(100))


def test_a_process_whose_disk_has_filled_up_still_reads_from_its_cache(serve, disk):
    server, cache = serve(long_answer), disk.path / "answers.sqlite"
    asyncio.run(ask(server.url, cache, range(20)))

    async def run():
        async with ChatClient(server.url, "m", cache=cache) as client:
            disk.fill()
            return [(await client.chat(ASK, seed=seed)).cached for seed in range(20)]

    assert asyncio.run(run()) == [True] * 20
    with pytest.raises(UserError, match=rf"the cache {disk.path}/new\.sqlite cannot be used \(.*\); make room"):
        ChatClient(server.url, "m", cache=disk.path / "new.sqlite")


def test_a_cache_that_is_read_only_is_named_at_once_and_can_be_read_afterwards(serve, disk, monkeypatch):
    server, cache = serve(long_answer), disk.path / "answers.sqlite"
    asyncio.run(ask(server.url, cache, range(20)))
    disk.read_only()
    with monkeypatch.context() as impatient:
        impatient.setattr(time, "sleep", lambda seconds: pytest.fail("waits for what does not pass"))
        with pytest.raises(UserError, match=rf"the cache {cache} cannot be used \(.*\); .* make it writable or name"):
            ChatClient(server.url, "m", cache=cache)
        with pytest.raises(UserError, match=r"the cache \S*other/answers\.sqlite cannot be used \(.*Read-only"):
            ChatClient(server.url, "m", cache=disk.path / "other" / "answers.sqlite")
    disk.read_only(False)
    assert len(asyncio.run(ask(server.url, cache, range(20)))) == 20
    assert len(server.chats) == 20


@pytest.mark.slow
@pytest.mark.parametrize("full_at", [3, 25, 45])
def test_full_disk_is_one_line_and_the_stage_continues_with_room(serve, disk, tmp_path, capfd, full_at):
    samples, config = prepare(tmp_path / "samples", 60), {"shard_size": 8}
    server = serve(describe)
    config["teachers"] = [{"url": server.url, "model": "m", "concurrency": 4}]
    whole = tables(caption(tmp_path / "whole", samples, **config))
    questions = count_requests(server)
    server.heard.clear()

    def filling(number, body):
        if number == full_at:
            disk.fill()
        return describe(number, body)

    server.script = filling
    run = disk.path / "run"
    with pytest.raises(UserError) as caught:
        caption(run, samples, **config)
    message = str(caught.value)
    assert str(disk.path) in message
    assert "\n" not in message
    assert "room" in message
    assert "Traceback" not in capfd.readouterr().err
    folder = run / "caption_committee"
    shards = folder.glob("captions/part-*.parquet")
    committed = {str(path.relative_to(folder)): path.read_bytes() for path in shards}
    assert committed.items() <= whole.items()

    with pytest.raises(UserError, match="room"):
        caption(run, samples, **config)
    disk.make_room()
    server.script = describe
    assert tables(caption(run, samples, **config)) == whole
    assert count_requests(server).keys() == questions.keys()
    # What could not be kept: four in flight, and what was answered since the last commit, a shard at most.
    assert sum((count_requests(server) - questions).values()) <= 8 + 4


def test_a_stage_on_a_read_only_disk_says_so(serve, disk, tmp_path):
    samples, server = prepare(tmp_path / "samples", 12), serve(describe)
    disk.read_only()
    with pytest.raises(UserError, match=r"Read-only file system"):
        caption(disk.path / "run", samples, teachers=[{"url": server.url, "model": "m"}])
    assert not server.heard
