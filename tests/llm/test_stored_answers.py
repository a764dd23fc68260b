"""A cache seen from outside: what is in it, as figures and as lines of JSON."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import time
import tracemalloc
from contextlib import closing
from datetime import datetime

import pytest
from scripted_server import say
from stored_rows import DAY, NOW, fill, key

from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.llm.pruning import prune
from rubricworks.llm.stored_answers import bytes_on_disk, cache_figures, cache_file, export_answers, stored_answers


@pytest.fixture
def path(tmp_path):
    return tmp_path / "c.sqlite"


def test_figures_are_the_totals_of_the_clients_that_asked(serve, path):
    server = serve(lambda number, body: say("x" * (number + 1), tokens=(100 + number, 7)))

    async def run(model, count, price):
        async with ChatClient(Endpoint(url=server.url, model=model, price_in=price), cache=path) as client:
            for seed in range(count):
                await client.chat([{"role": "user", "content": "?"}], None, seed)
            return client.totals

    small, large = asyncio.run(run("small", 2, 1.0)), asyncio.run(run("large", 3, 50.0))
    figures = cache_figures(path)
    assert figures.answers == 5
    assert figures.bytes == path.stat().st_size
    assert abs(figures.newest.timestamp() - time.time()) < 3600 > (figures.newest - figures.oldest).total_seconds() >= 0
    assert [one.model for one in figures.models] == ["large", "small"]
    for one, totals, mean in zip(figures.models, (large, small), (4.0, 1.5), strict=True):
        assert (one.prompt_tokens, one.completion_tokens) == (totals.prompt_tokens, totals.completion_tokens)
        assert one.cost == pytest.approx(totals.cost)
        assert (one.answers, one.mean_characters) == (totals.calls, mean)


def test_an_empty_cache_has_no_dates(path):
    fill(path, [])
    figures = cache_figures(path)
    assert (figures.answers, figures.oldest, figures.newest, figures.models) == (0, None, None, ())
    assert prune(path, model="m").answers == prune(path, keep_bytes=0).answers == 0


def test_reading_leaves_the_folder_as_it_was(path, tmp_path):
    fill(path, [("m", 0, "a"), ("n", 5, "b")])
    before = path.read_bytes()
    cache_figures(path)
    list(stored_answers(path))
    prune(path, model="m", dry_run=True)
    assert os.listdir(tmp_path) == ["c.sqlite"]
    assert path.read_bytes() == before


def test_export_writes_each_answer_on_a_line_of_its_own(path, tmp_path):
    texts = ['{"n": 1}\n', "two\u2028lines\r\n", "a \0 in it", "größer 🙂", "", "\\"]
    fill(path, [(f"m{number}", number * DAY, text) for number, text in enumerate(texts)])
    out = tmp_path / "out.jsonl"
    assert export_answers(path, out) == len(texts)
    lines = [json.loads(line) for line in out.read_bytes().split(b"\n")[:-1]]
    assert list(lines[0]) == ["key", "model", "made", "raw", "prompt_tokens", "completion_tokens", "cost"]
    for number, (line, text) in enumerate(zip(lines, texts, strict=True)):
        assert (line["key"], line["model"], line["raw"]) == (key(number).hex(), f"m{number}", text)
        assert (line["prompt_tokens"], line["completion_tokens"], line["cost"]) == (10, 5, 0.25)
        made = datetime.fromisoformat(line["made"])
        assert (made.timestamp(), made.utcoffset().total_seconds()) == (NOW - number * DAY, 0)


def test_export_holds_few_answers_at_a_time(path, tmp_path):
    fill(path, [("m", 0, str(number) * 5_000) for number in range(1000, 3000)])
    tracemalloc.start()
    export_answers(path, tmp_path / "out.jsonl")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (tmp_path / "out.jsonl").stat().st_size > 40e6
    assert most < 12e6


def test_export_that_fails_leaves_the_old_file_and_nothing_beside_it(path, tmp_path):
    fill(path, [("m", 0, "a"), ("m", 0, "b")])
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE answers SET answer = '[1]' WHERE id = 2")
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    with pytest.raises(UserError, match="row 2 holds no answer of a client"):
        export_answers(path, out)
    with pytest.raises(UserError, match="is the cache itself"):
        export_answers(path, path)
    assert (out.read_text(), sorted(os.listdir(tmp_path))) == ("old", ["c.sqlite", "out.jsonl"])


def test_a_killed_run_leaves_its_log_which_counts(path):
    program = (
        "import os, sys, time; from pathlib import Path; from rubricworks.llm.cache import AnswerCache\n"
        "cache = AnswerCache(Path(sys.argv[1])); cache.put(b'k' * 32, 'm', '[\"a\",1,1,0]'); time.sleep(0.2)\n"
        "while cache._pending: time.sleep(0.01)\n"
        "os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    log = path.with_name("c.sqlite-wal")
    assert bytes_on_disk(path) == path.stat().st_size + log.stat().st_size > path.stat().st_size
    assert [answer.raw for answer in stored_answers(path)] == ["a"]


def database(path, *statements):
    with closing(sqlite3.connect(path)) as file, file:
        for statement in statements:
            file.execute(statement)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: path.write_text("notes" * 1000), "is no cache of answers"),
        (lambda path: path.write_bytes(b""), "is no cache of answers"),
        (lambda path: database(path, "CREATE TABLE spending (a)"), "is no cache of answers"),
        (lambda path: database(path, "CREATE TABLE answers (a)"), "is no cache of answers"),
        (lambda path: database(path, "CREATE TABLE answers (a)", "PRAGMA user_version = 9"), "schema 9, here 2"),
        (lambda path: database(path, "CREATE TABLE answers (a)", "PRAGMA user_version = 2"), "no such column"),
    ],
)
def test_what_is_no_cache_is_named_and_left_alone(path, tmp_path, make, told):
    make(path)
    before = path.read_bytes()
    for look in (cache_figures, lambda path: prune(path, model="m"), lambda path: export_answers(path, tmp_path / "o")):
        with pytest.raises(UserError, match=told) as caught:
            look(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (before, ["c.sqlite"])


def test_a_path_is_a_cache_or_the_folder_of_a_run(tmp_path):
    with pytest.raises(UserError, match=r"there is no such file or folder"):
        cache_file(tmp_path / "c")
    with pytest.raises(UserError, match=r"holds no llm_cache\.sqlite"):
        cache_file(tmp_path)
    assert os.listdir(tmp_path) == []
    (tmp_path / "llm_cache.sqlite").touch()
    assert cache_file(tmp_path) == cache_file(tmp_path / "llm_cache.sqlite") == tmp_path / "llm_cache.sqlite"


def test_odd_names_are_no_options_of_sqlite(tmp_path):
    path = tmp_path / "a?mode=memory#b%20c.sqlite"
    fill(path, [("m", 0, "a")])
    assert cache_figures(path).answers == 1
    assert os.listdir(tmp_path) == [path.name]
