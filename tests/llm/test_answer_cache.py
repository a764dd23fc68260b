"""The cache between runs: what makes two questions the same, several loops and processes, files that are no cache."""

import asyncio
import base64
import json
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from forked import Forked
from pydantic import BaseModel
from scripted_server import fail, say

from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, ChatError, Endpoint, image_part, text_part
from rubricworks.llm.cache import AnswerCache, newest_answer_id, read_answers


class Answer(BaseModel):
    n: int


class OtherAnswer(BaseModel):
    n: float


def counting(number, _):
    return say(json.dumps({"n": number}), tokens=(100, 10))


def question(text="how many?", image=b"\xff\xd8\xff1"):
    return [{"role": "user", "content": [image_part(image), text_part(text)]}]


def ask(path, url, *, messages=None, response=Answer, seed=0, **options):
    async def run():
        async with ChatClient(Endpoint(url=url, **{"model": "m", **options}), cache=path) as client:
            return await client.chat(messages or question(), response, seed), client.totals

    return asyncio.run(run())


def test_the_same_question_is_asked_once_also_after_the_server_moved(serve, tmp_path):
    first, second = serve(counting), serve([fail(500)])
    cache = tmp_path / "deep" / "cache.sqlite"
    fresh, _ = ask(cache, first.url, prices=(2.0, 0.0))
    cached, totals = ask(cache, second.url, prices=(2.0, 0.0))
    assert (fresh.cached, cached.cached) == (False, True)
    assert (cached.value, cached.raw, cached.usage) == (fresh.value, fresh.raw, fresh.usage)
    assert cached.usage.cost == pytest.approx(200e-6)
    assert (totals.calls, totals.cached, totals.requests, totals.cost) == (1, 1, 0, 0)
    assert not second.heard


@pytest.mark.parametrize(
    "other",
    [
        {"model": "n"},
        {"revision": "2"},
        {"temperature": 0.5},
        {"extra_body": {"top_p": 0.5}},
        {"max_tokens": 7},
        {"seed": 1},
        {"response": OtherAnswer},
        {"response": None},
        {"extra_body": {"response_format": None}},
        {"extra_body": {"min_p": 0.1}},
        {"messages": question("how few?")},
        {"messages": question(image=b"\xff\xd8\xff2")},
    ],
    ids=str,
)
def test_another_question_is_asked_anew(serve, tmp_path, other):
    server = serve(counting)
    ask(tmp_path / "c", server.url)
    ask(tmp_path / "c", server.url, **other)
    assert len(server.chats) == 2


def test_a_seed_tells_samples_apart_even_when_it_is_not_sent(serve, tmp_path):
    server = serve(counting)
    values = [ask(tmp_path / "c", server.url, seed=seed, extra_body={"seed": None})[0].value.n for seed in (1, 2, 1)]
    assert values == [0, 1, 0]
    assert "seed" not in server.chats[0].body


def test_equal_questions_in_flight_share_one_answer(serve, tmp_path):
    slow = say('{"n": 1}')
    slow.delay = 0.05
    server = serve([slow])

    async def run():
        async with ChatClient(server.url, "m", cache=tmp_path / "c") as client:
            return await asyncio.gather(*(client.chat(question(), Answer) for _ in range(8)))

    replies = asyncio.run(run())
    assert len(server.chats) == 1
    assert sorted(reply.cached for reply in replies) == [False] + [True] * 7


def test_those_who_waited_for_a_call_that_failed_ask_for_themselves(serve, tmp_path):
    def script(number, _):
        answer = fail(400) if number == 0 else say('{"n": 1}')
        answer.delay = 0.05
        return answer

    server = serve(script)

    async def run():
        async with ChatClient(server.url, "m", cache=tmp_path / "c") as client:
            return await asyncio.gather(*(client.chat(question(), Answer) for _ in range(3)), return_exceptions=True)

    first, *others = asyncio.run(run())
    assert isinstance(first, ChatError)
    assert [reply.value.n for reply in others] == [1, 1]


def test_errors_and_malformed_answers_are_not_kept(serve, tmp_path):
    server = serve([say("prose"), say("prose"), say("prose"), say('{"n": 3}')])
    with pytest.raises(ChatError):
        ask(tmp_path / "c", server.url)
    assert ask(tmp_path / "c", server.url)[0].value.n == 3


def test_a_repaired_answer_is_kept_with_the_tokens_of_all_its_turns(serve, tmp_path):
    server = serve([say("prose", tokens=(10, 1)), say('{"n": 3}', tokens=(20, 2))])
    ask(tmp_path / "c", server.url)
    cached, _ = ask(tmp_path / "c", server.url)
    assert (cached.value.n, cached.usage.prompt_tokens, cached.usage.completion_tokens) == (3, 30, 3)
    assert len(server.chats) == 2


def test_two_event_loops_share_one_cache(serve, tmp_path):
    server = serve(counting)
    client = ChatClient(server.url, "m", cache=tmp_path / "c")
    values: list[int] = []

    def work():
        async def run():
            for seed in range(40):
                values.append((await client.chat(question(), Answer, seed)).value.n)

        asyncio.run(run())

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.totals.calls == 80
    before = len(server.chats)
    work()
    assert len(server.chats) == before
    asyncio.run(client.close())


PROGRAM = """
import asyncio, sys, json
from pathlib import Path
from pydantic import BaseModel
from rubricworks.llm import ChatClient
class Answer(BaseModel):
    n: int
async def run(url, cache, first):
    async with ChatClient(url, "m", cache=Path(cache)) as client:
        seeds = range(int(first), int(first) + 300)
        asked = [client.chat([{"role": "user", "content": "?"}], Answer, seed) for seed in seeds]
        replies = await asyncio.gather(*asked)
        print(json.dumps([[reply.value.n for reply in replies], client.totals.cached]))
asyncio.run(run(*sys.argv[1:]))
"""


def test_two_processes_write_one_cache_and_nothing_is_lost(serve, tmp_path):
    server = serve(counting)
    cache = tmp_path / "c.sqlite"

    def start(first):
        return Forked(PROGRAM, server.url, cache, first)

    both = [start(0), start(150)]
    for process in both:
        process.output()
    with sqlite3.connect(cache) as database:
        assert database.execute("SELECT count(*) FROM answers").fetchone() == (450,)
    request_count = len(server.chats)
    values, cached = json.loads(start(0).output())
    assert (cached, len(server.chats)) == (300, request_count)
    assert len(set(values)) == 300


def test_a_client_that_nobody_closed_still_keeps_its_answers(serve, tmp_path):
    server = serve(counting)
    program = PROGRAM.replace("async with ChatClient(", "client = ChatClient(").replace(
        "Path(cache)) as client:", "Path(cache))"
    )
    program = program.replace("\n        ", "\n    ")
    done = subprocess.run(
        [sys.executable, "-c", program, server.url, str(tmp_path / "c"), "0"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    with sqlite3.connect(tmp_path / "c") as database:
        assert database.execute("SELECT count(*) FROM answers").fetchone() == (300,)


def test_the_file_holds_no_url(serve, tmp_path):
    server = serve(counting)
    ask(tmp_path / "c", server.url)
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"127.0.0.1" not in content
    assert base64.b64encode(b"\xff\xd8\xff1") not in content


@pytest.mark.parametrize("content", [b"this is no database, it is a note" * 100, None])
def test_a_file_that_is_no_cache_is_named_and_left_alone(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(UserError, match=r"notes\.txt cannot be used"):
        ChatClient("http://127.0.0.1:1/v1", "m", cache=path)
    assert content is None or path.read_bytes() == content


def test_a_cache_of_a_newer_version_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "c") as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(UserError, match="another version"):
        ChatClient("http://127.0.0.1:1/v1", "m", cache=Path(tmp_path / "c"))


def test_rows_are_read_from_outside_in_order_and_in_pieces(tmp_path):
    path = tmp_path / "a?mode=memory#b%20c.sqlite"
    keys = [bytes([number]) * 32 for number in range(5)]
    cache = AnswerCache(path)
    for number, key in enumerate(keys):
        cache.put(key, f"m{number}", f"answer {number}")
    cache.close()
    before = path.read_bytes()
    first = read_answers(path, after=0, limit=3)
    rest = read_answers(path, after=first[-1][0], limit=100)
    expected = [(key.hex().upper(), f"m{number}", f"answer {number}") for number, key in enumerate(keys)]
    assert [row[1:] for row in first + rest] == expected
    assert rest[-1][0] == newest_answer_id(path)
    assert read_answers(path, after=rest[-1][0], limit=100) == []
    assert (path.read_bytes(), [file.name for file in tmp_path.iterdir()]) == (before, [path.name])


def test_a_killed_process_leaves_rows_in_the_log_which_are_read(tmp_path):
    path = tmp_path / "c.sqlite"
    program = (
        "import os, sys, time; from pathlib import Path; from rubricworks.llm.cache import AnswerCache\n"
        "cache = AnswerCache(Path(sys.argv[1])); cache.put(b'k' * 32, 'm', 'a'); time.sleep(0.2)\n"
        "while cache._pending: time.sleep(0.01)\n"
        "os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert path.with_name("c.sqlite-wal").stat().st_size > 0
    assert [row[2:] for row in read_answers(path, after=0, limit=10)] == [("m", "a")]


def test_a_file_that_is_no_cache_is_named_in_one_line_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("notes" * 1000)
    for look in (newest_answer_id, lambda path: read_answers(path, after=0, limit=1)):
        with pytest.raises(UserError, match=r"notes\.txt cannot be used") as caught:
            look(path)
        assert "\n" not in str(caught.value)
    assert path.read_text() == "notes" * 1000
