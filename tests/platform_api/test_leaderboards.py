"""Leaderboards over HTTP from stored scores: means and paired differences by hand, CSV, Markdown, a page."""

import csv
import io

import pytest
from served_api import ask, exchange, served, wait_for
from trained_run import write_run, write_table

from rubricworks.platform_api.services import evaluations
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.runs.tables import TableFile

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
    assert [item["run"] for item in first["items"] + second["items"]] == ["two-2", "one-1"]
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


def paged(url, query, limit):
    """Rows of all pages, and the number of pages."""
    rows, cursor, pages = [], "", 0
    while cursor is not None:
        page = ask(f"{url}/api/v1/runs/one-1/stages/score/scores?{query}&limit={limit}{cursor}")[1]
        rows += page["items"]
        cursor = f"&cursor={page['next_cursor']}" if page["next_cursor"] else None
        pages += 1
    return [(row["sample_id"], row["model"], row["value"]) for row in rows], pages


@pytest.mark.parametrize("limit", [1, 3, 8])
def test_scores_come_by_page_under_their_filters(url, limit):
    every = [(str(at), name, value) for name, of in (("base", BASE), ("policy", POLICY)) for at, value in enumerate(of)]
    assert paged(url, "", limit) == (every, -(-8 // limit))
    of_model = [item for item in every if item[1] == "policy"]
    assert paged(url, "model=policy&scorer=oracle", limit)[0] == of_model
    assert paged(url, "sample_id=2", limit)[0] == [item for item in every if item[0] == "2"]
    assert paged(url, "scorer=rubric", limit) == ([], 1)


def test_a_page_of_scores_reads_a_few_shards_and_its_cursor_leads_on(url, monkeypatch):
    monkeypatch.setattr(evaluations, "_MOST_READ", 3)  # one shard
    read = []
    real = TableFile.rows
    monkeypatch.setattr(TableFile, "rows", lambda file, *place: read.append(file.path) or real(file, *place))
    page = ask(f"{url}/api/v1/runs/one-1/stages/score/scores?sample_id=3&model=policy")[1]
    assert (page["items"], len(read)) == ([], 1)
    assert paged(url, "sample_id=3&model=policy", 50) == ([("3", "policy", 0.9)], 3)


def test_scores_go_out_as_csv(url):
    place = f"{url}/api/v1/runs/two-2/stages/score/scores/csv"
    status, headers, body = exchange(f"{place}?model=%3Cu%3Eother%3C/u%3E")
    rows = list(csv.DictReader(io.StringIO(body.decode())))
    assert (status, headers["content-type"]) == (200, "text/csv; charset=utf-8")
    assert [(row["sample_id"], row["model"], row["value"]) for row in rows] == [
        (str(at), "<u>other</u>", "0.1") for at in range(4)
    ]
    assert len(exchange(place)[2].splitlines()) == 9
    assert ask(f"{url}/api/v1/runs/none-3/stages/score/scores")[0] == 404
    assert ask(f"{url}/api/v1/runs/nobody/stages/score/scores/csv")[1]["detail"].startswith("there is no run 'nobody'")
