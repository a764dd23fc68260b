"""Leaderboards over HTTP from stored scores: means and paired differences by hand, CSV, Markdown, a page."""

import csv
import io

import pytest
from served_api import ask, exchange, served, wait_for
from trained_run import write_run, write_table

from rubricworks.platform_api.settings import ApiSettings

BASE, POLICY = (0.2, 0.4, 0.6, 0.4), (0.5, 0.6, 0.7, 0.9)


def write_scores(run, model="policy", values=POLICY):
    rows = [
        {"sample_id": str(at), "model": name, "revision": name, "decoding": "greedy", "scorer": "oracle", "part": "f1"}
        | {"version": "1", "value": value}
        for name, of_model in (("base", BASE), (model, values))
        for at, value in enumerate(of_model)
    ]
    write_table(run / "score", "scores", rows, shard=3)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_scores(write_run(folder, "one-1"))
    write_scores(write_run(folder, "two-2"), "<u>other</u>", (0.1, 0.1, 0.1, 0.1))
    write_run(folder, "none-3")
    with served(ApiSettings(storage=str(folder), index_seconds=0.05)) as url:
        wait_for(lambda: len(ask(f"{url}/api/v1/evaluations")[1]["items"]) == 2)
        wait_for(lambda: ask(f"{url}/api/v1/runs/none-3")[0] == 200)
        yield url


def test_evaluations_are_listed_by_page_the_last_written_first(url):
    first = ask(f"{url}/api/v1/evaluations?limit=1")[1]
    second = ask(f"{url}/api/v1/evaluations?limit=1&cursor={first['next_cursor']}")[1]
    assert [one["run"] for one in first["items"] + second["items"]] == ["two-2", "one-1"]
    assert (first["items"][0]["scores"], second["next_cursor"]) == (8, None)


def test_a_board_has_means_and_paired_differences(url):
    board = ask(f"{url}/api/v1/leaderboard?run=one-1")[1]["board"]
    cells = {row["model"]: row["cells"]["0"] for row in board["rows"]}
    assert cells["base"]["mean"]["value"] == pytest.approx(0.4)
    assert cells["policy"]["mean"]["value"] == pytest.approx(0.675)
    assert cells["policy"]["difference"]["value"] == pytest.approx(0.275)
    assert board["against"] == "base"


def test_a_board_of_several_runs_as_csv_and_markdown(url):
    status, headers, body = exchange(f"{url}/api/v1/leaderboard/csv?run=one-1&run=two-2&against=policy")
    rows = {row["model"]: row for row in csv.DictReader(io.StringIO(body.decode()))}
    assert (status, headers["content-type"]) == (200, "text/csv; charset=utf-8")
    assert float(rows["<u>other</u>"]["difference"]) == pytest.approx(0.1 - 0.675)
    text = exchange(f"{url}/api/v1/leaderboard/markdown?run=one-1")[2].decode()
    assert "| policy | 0.675" in text


def test_a_board_that_cannot_be_built_says_why(url):
    assert ask(f"{url}/api/v1/leaderboard?run=none-3")[1]["detail"] == "none-3 has no scores yet"
    status, answer = ask(f"{url}/api/v1/leaderboard?run=one-1&against=nobody")
    assert (status, "no model is called nobody" in answer["detail"]) == (422, True)
    assert ask(f"{url}/api/v1/leaderboard?" + "&".join(f"run={n}" for n in range(13)))[0] == 422


def test_the_page_has_the_table_and_names_as_text(url):
    status, _, body = exchange(f"{url}/leaderboard")
    assert status == 200
    assert b"&lt;u&gt;other" in body
    assert b"<u>other" not in body
    assert b'value="two-2" checked' in body
