"""`rubricworks cache` as people type it."""

import asyncio
import json
import re
import sqlite3
from contextlib import closing

import pytest
from scripted_server import say

from rubricworks.llm import ChatClient, Endpoint


@pytest.fixture
def run_folder(serve, tmp_path):
    """A run that asked two judges: three answers of `old`, a day ago, and two of `new`."""
    server = serve(lambda number, body: say(f"{body['model']} {number}", tokens=(1000, 500)))
    file = tmp_path / "run" / "llm_cache.sqlite"

    async def ask(model, count):
        async with ChatClient(Endpoint(url=server.url, model=model, price_in=2.0), cache=file) as client:
            for seed in range(count):
                await client.chat([{"role": "user", "content": "?"}], None, seed)

    asyncio.run(ask("old", 3))
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE answers SET made = made - 86400")
    asyncio.run(ask("new", 2))
    return file.parent


def test_stats_shows_a_table_and_writes_the_same_as_json(tell, run_folder):
    told = tell("cache", "stats", "run")
    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    assert lines[0].startswith("run/llm_cache.sqlite: 5 answers, ")
    assert re.fullmatch(r"made from \d{4}-\d\d-\d\d \d\d:\d\d to \d{4}-\d\d-\d\d \d\d:\d\d UTC", lines[1])
    rows = [line.split() for line in lines[3:6]]
    assert rows == [
        ["model", "answers", "prompt", "completion", "dollars", "length"],
        ["old", "3", "3,000", "1,500", "0.0060", "5"],
        ["new", "2", "2,000", "1,000", "0.0040", "5"],
    ]
    figures = json.loads(tell("cache", "stats", "run/llm_cache.sqlite", "--json").out)
    assert (figures["answers"], figures["bytes"]) == (5, (run_folder / "llm_cache.sqlite").stat().st_size)
    old = {"model": "old", "answers": 3, "prompt_tokens": 3000, "completion_tokens": 1500, "mean_characters": 5.0}
    assert figures["models"][0] == old | {"cost": pytest.approx(0.006)}


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--older-than", "12h"], ["new", "new"]),
        (["--older-than", "0.5d"], ["new", "new"]),
        (["--older-than", "2d"], ["old", "old", "old", "new", "new"]),
        (["--model", "new"], ["old", "old", "old"]),
        (["--model", "new", "--older-than", "720m"], ["old", "old", "old", "new", "new"]),
        (["--keep-mb", "0"], []),
        (["--keep-mb", "1000", "--older-than", "1w"], ["old", "old", "old", "new", "new"]),
    ],
)
def test_prune_says_and_deletes_what_goes(tell, run_folder, options, left):
    gone = 5 - len(left)
    told = tell("cache", "prune", "run", *options, "--dry-run")
    assert (told.code, told.out.startswith(f"would delete {gone} answers (")) == (0, True)
    assert tell("cache", "export", "run", "--out", "-").out.count("\n") == 5
    told = tell("cache", "prune", "run", *options)
    assert re.fullmatch(rf"deleted {gone} answers \([\d,.]+ \w+\); the cache took .* and takes [\d,.]+ kB\n", told.out)
    lines = tell("cache", "export", "run", "--out", "-").out.splitlines()
    assert [json.loads(line)["model"] for line in lines] == left


def test_pruned_answers_are_asked_again_and_the_others_are_not(tell, serve, run_folder):
    tell("cache", "prune", "run", "--model", "old")
    server = serve([say("asked again")])

    async def ask(model):
        async with ChatClient(server.url, model, cache=run_folder / "llm_cache.sqlite") as client:
            return (await client.chat([{"role": "user", "content": "?"}], None, 0)).raw

    assert asyncio.run(ask("old")) == "asked again"
    assert asyncio.run(ask("new")) == "new 3"
    assert len(server.chats) == 1


def test_export_writes_a_file_and_says_how_many(tell, run_folder, tmp_path):
    told = tell("cache", "export", "run", "--out", "answers.jsonl")
    assert (told.code, told.out) == (0, "5 answers in answers.jsonl\n")
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [line["raw"] for line in lines] == ["old 0", "old 1", "old 2", "new 3", "new 4"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["stats", "nowhere"], "nowhere: there is no such file or folder"),
        (["stats", "."], "holds no llm_cache.sqlite"),
        (["stats", "notes.txt"], "notes.txt is no cache of answers"),
        (["export", "run", "--out", "run/llm_cache.sqlite"], "is the cache itself"),
        (["export", "run", "--out", "no/such/folder"], "No such file or directory"),
        (["prune", "notes.txt", "--keep-mb", "1"], "notes.txt is no cache of answers"),
        (["prune", "run"], "say what is to go: --older-than 30d"),
    ],
)
def test_mistakes_are_one_line(tell, run_folder, tmp_path, arguments, told):
    (tmp_path / "notes.txt").write_text("no cache, but a note that is long enough to be one" * 100)
    said = tell("cache", *arguments)
    assert (said.code, said.err.count("\n"), said.out) == (2, 1, "")
    assert told in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "run"]


@pytest.mark.parametrize("age", ["30", "d", "-1d", "30 d", "30y", "٣d", "1e3d"])
def test_an_age_has_a_number_and_a_unit(tell, run_folder, age):
    said = tell("cache", "prune", "run", f"--older-than={age}")
    assert said.code == 2
    assert "90m, 12h, 30d, 4w" in said.err


def test_help_of_prune_says_that_answers_are_paid_again(tell):
    assert "asked, and paid" in tell("cache", "prune", "--help").out
