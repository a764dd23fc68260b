"""Lists of runs: columns, filters and order, each view in an address; notes and tags; runs side by side; artifacts."""

import http.client
import json
import os
import re
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr
from served_api import TOKEN, Caller, bearer, exchange, served, wait_for, wait_for_rollouts
from trained_run import STAGE, finish_tables, write_run

from rubricworks.platform_api.settings import ApiSettings

FIGURES = {"low-1": (0.2, 30.0), "high-1": (0.9, 600.0), "none-1": (None, None), "mid-1": (0.5, 60.0)}
"""Run → reward of its training, seconds of its stages."""
SCORES = {"value": 0.7, "low": 0.6, "high": 0.8, "samples": 40, "missing": 0}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, (reward, seconds) in FIGURES.items():
        run = write_run(folder, name)
        steps = [] if reward is None else [{"step": at, "reward": reward} for at in range(1, 21)]
        (run / STAGE / "steps.jsonl").write_text("\n".join(map(json.dumps, steps)))
        if seconds is not None:
            (run / "ledger.jsonl").write_text(json.dumps({"stage": "prepare", "seconds": seconds}))
        (run / "recipe.yaml").write_text(f"name: quickstart\nseed: 1\npolicy: {{steps: {len(name)}}}\n")
    (folder / "none-1" / "recipe.yaml").write_text("name: quickstart\nseed: 1\n")
    board = {
        "base": "base",
        "policy": "policy",
        "models": [{"model": "policy", "decoding": "greedy", "means": {"arena_win": SCORES, "oracle_f1": SCORES}}],
        "headlines": ["oracle_f1"],
    }
    (folder / "high-1" / "score").mkdir()
    (folder / "high-1" / "score" / "scores.json").write_text(json.dumps(board))
    curves = folder / "high-1" / "state" / STAGE / "curves.jsonl"
    curves.parent.mkdir(parents=True)
    curves.write_text('{"step": 10, "entropy": 2.5}\n{"step": 20, "entropy": 2.0}\n{"step": 10, "entropy": 2.25}\n{"st')
    finish_tables(folder / "high-1")
    (folder / "high-1" / "llm_cache.sqlite").write_bytes(b"requests")
    return folder


@pytest.fixture(scope="module")
def caller(runs):
    with served(ApiSettings(storage=str(runs), token=SecretStr(TOKEN), index_seconds=0.05)) as url:
        caller = Caller(url)
        for name in FIGURES:
            wait_for_rollouts(url, name, **bearer())
        wait_for(lambda: caller.get("runs/high-1").get("win_rate"))
        tagged = caller.post(
            "runner-anna", "runs/mid-1/notes", {"note": "slow <b>judge</b>", "tags": ["night", "base"]}
        )
        assert tagged[0] == 200
        yield caller


def names(caller, query):
    return [run["name"] for run in caller.get(f"runs?{query}")["items"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("sort=reward", ["high-1", "mid-1", "low-1", "none-1"]),
        ("sort=reward&order=asc", ["low-1", "mid-1", "high-1", "none-1"]),
        ("sort=seconds", ["high-1", "mid-1", "low-1", "none-1"]),
        ("sort=reward&where=reward%20%3E%3D%200.5", ["high-1", "mid-1"]),
        ("sort=reward&where=reward%3E0.1,%20seconds%20%3C%20100", ["mid-1", "low-1"]),
        ("where=win_rate%3E0.65%20and%20reward=0.9", ["high-1"]),
        ("tag=night", ["mid-1"]),
        ("tag=nig", []),
        ("owner=nobody", []),
        ("champion=true", []),
        ("days=1&search=gh", ["high-1"]),
        ("days=0", []),
    ],
)
def test_runs_are_sorted_and_filtered_by_their_results(caller, query, expected):
    assert names(caller, query) == expected


@pytest.mark.parametrize("order", ["desc", "asc"])
def test_pages_of_a_sorted_list_have_runs_without_a_value_last_and_once(caller, order):
    whole = names(caller, f"sort=reward&order={order}")
    result, cursor = [], ""
    while cursor is not None:
        page = caller.get(f"runs?sort=reward&order={order}&limit=1{cursor and '&cursor=' + cursor}")
        result += [run["name"] for run in page["items"]]
        cursor = page["next_cursor"]
    assert result == whole
    assert whole[-1] == "none-1"


def test_a_run_has_its_results_beside_its_tags(caller):
    run = caller.get("runs/high-1")
    assert [run[name] for name in ("win_rate", "win_low", "win_high", "seconds")] == [0.7, 0.6, 0.8, 600.0]
    assert caller.get("runs/mid-1")["tags"] == ["base", "night"]
    assert caller.get("runs/mid-1/notes")["note"] == "slow <b>judge</b>"
    page = exchange(f"{caller.pages}/runs/mid-1", **bearer())[2].decode()
    assert "slow &lt;b&gt;judge&lt;/b&gt;" in page


@pytest.mark.parametrize("tags", [["a, b"], [""], ["x" * 51], ["t"] * 21])
def test_tags_that_no_list_could_hold_are_refused(caller, tags):
    assert caller.post("runner-anna", "runs/low-1/notes", {"tags": tags})[0] == 422
    assert caller.get("runs/low-1")["tags"] == []


def test_a_viewer_writes_no_notes(caller):
    assert caller.post("viewer-carl", "runs/low-1/notes", {"note": "x"})[0] == 403


def test_a_page_of_runs_keeps_its_view_in_every_link(caller):
    query = "sort=reward&column=reward&column=tags&where=reward%3E0"
    page = exchange(f"{caller.pages}/runs?{query}", **bearer())[2].decode()
    heads = re.findall(r'<th[^>]*><a href="([^"]*)">', page)
    assert heads == [
        "?column=reward&amp;column=tags&amp;where=reward%3E0&amp;sort=reward&amp;order=asc",
        "?column=reward&amp;column=tags&amp;where=reward%3E0&amp;sort=tags&amp;order=desc",
    ]
    tag = re.search(r'class="tag" href="([^"]*)">base<', page)
    assert tag is not None
    assert tag[1] == "?sort=reward&amp;column=reward&amp;column=tags&amp;where=reward%3E0&amp;tag=base"


def test_a_condition_that_cannot_be_read_is_told_beside_its_field(caller):
    problem = "where: 'reward > high' is no condition; write one as reward >= 0.6"
    assert problem in caller.get("runs?where=reward%20%3E%20high")["detail"]
    status, _, body = exchange(f"{caller.pages}/runs?where=reward%20%3E%20high", **bearer())
    assert status == 422
    assert b'id="wrong-where"' in body
    assert b'value="reward &gt; high"' in body, "the field keeps what was typed"


def test_runs_are_compared_by_settings_scores_and_curves(caller):
    comparison = caller.get("comparison?run=high-1&run=none-1")
    settings = {row["field"]: (row["values"], row["differs"]) for row in comparison["settings"]}
    assert settings["policy.steps"] == (["6", None], True)
    assert settings["seed"] == (["1", "1"], False)
    assert comparison["settings"][0]["differs"], "what differs comes first"
    scores = {row["figure"]: row["values"] for row in comparison["scores"]}
    assert scores["oracle_f1"][1] is None
    assert (scores["oracle_f1"][0]["low"], scores["oracle_f1"][0]["high"]) == (0.6, 0.8)
    curves = {(curve["run"], curve["name"]): curve["points"] for curve in comparison["curves"]}
    assert curves["high-1", "entropy"] == [[10.0, 2.25], [20.0, 2.0]], "of two lines of a step, the last"
    assert curves["high-1", "reward"][0] == [1.0, 0.9]


@pytest.mark.parametrize("count", [0, 1, 9])
def test_a_comparison_of_too_few_or_too_many_runs_is_refused(caller, count):
    query = "&".join(f"run=run-{at}" for at in range(count))
    assert f"{count} runs are chosen; choose 2 to 8" in str(caller.get(f"comparison?{query}")) or not count


def test_artifacts_come_with_digests_and_nothing_else_of_a_run_is_sent(caller, runs):
    items = {item["path"]: item for item in caller.get("runs/high-1/artifacts?limit=200")["items"]}
    shard = f"{STAGE}/rollouts/part-00001.parquet"
    assert (items[shard]["kind"], items[shard]["rows"], items[shard]["digest"]) == ("rollouts", 6, "0" * 63 + "1")
    assert f"{STAGE}/steps.jsonl" in items
    assert not {"llm_cache.sqlite", "recipe.yaml", f"logs/{STAGE}.log"} & items.keys()
    status, headers, content = exchange(f"{caller.url}/runs/high-1/artifact?path={shard}", **bearer())
    assert (status, content) == (200, (runs / "high-1" / shard).read_bytes())
    assert headers["content-disposition"].startswith("attachment;")
    os.truncate(runs / "low-1" / STAGE / "steps.jsonl", 10**10)
    wait_for(lambda: any(item["bytes"] == 10**10 for item in caller.get("runs/low-1/artifacts?limit=200")["items"]))
    address = f"/api/v1/runs/low-1/artifact?path={STAGE}/steps.jsonl"
    connection = http.client.HTTPConnection(urlsplit(caller.pages).netloc, timeout=60)
    connection.request("GET", address, headers=bearer())
    answer = connection.getresponse()
    assert (answer.status, answer.read(9), answer.headers["content-length"]) == (200, b'{"step": ', str(10**10))
    connection.close()
    for path in ("llm_cache.sqlite", "../mid-1/recipe.yaml", "recipe.yaml"):
        assert exchange(f"{caller.url}/runs/high-1/artifact?path={path}", **bearer())[0] == 404
