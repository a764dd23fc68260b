"""Runs and rollouts over HTTP, from files that a training wrote."""

import asyncio
import contextlib
import html
import http.client
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from datetime import timedelta
from itertools import chain
from types import SimpleNamespace
from urllib.parse import quote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from odd_run import check_odd_run, write_odd_run
from pydantic import SecretStr
from served_api import ask, exchange, served, wait_for, wait_for_rollouts
from trained_run import NAMES, STAGE, png, rollout, write_run, write_shard, write_table

from rubricworks.cli import main
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.migrate import migrate
from rubricworks.platform_api.services import rollouts as rollouts_service
from rubricworks.platform_api.services import run_index, run_storage
from rubricworks.platform_api.services import runs as runs_service
from rubricworks.platform_api.services.run_index import RunIndex
from rubricworks.platform_api.services.runs import get_run, log_after, read_log
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.reports.rubric_audit import AUDIT_PAGE
from rubricworks.runs import records
from rubricworks.runs.folder_lock import lock_folder
from rubricworks.runs.records import run_record
from rubricworks.runs.store import open_run_store


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder)
    write_run(folder, "other-2", recipe="rubicap")
    return folder


@pytest.fixture(scope="module")
def url(runs):
    with served(ApiSettings(storage=str(runs), index_seconds=0.05)) as url:
        for run in ("other-2", "today-1"):
            wait_for_rollouts(url, run)
        yield f"{url}/api/v1"


def test_runs_are_listed_by_page_the_last_changed_first(url):
    status, first = ask(f"{url}/runs?limit=1")
    assert (status, [run["name"] for run in first["items"]]) == (200, ["other-2"])
    second = ask(f"{url}/runs?limit=1&cursor={first['next_cursor']}")[1]
    assert ([run["name"] for run in second["items"]], second["next_cursor"]) == (["today-1"], None)


@pytest.mark.parametrize(
    ("query", "names"),
    [("recipe=rubicap", ["other-2"]), ("search=day", ["today-1"]), ("search=%25", []), ("state=failed", [])],
)
def test_runs_are_filtered(url, query, names):
    assert [run["name"] for run in ask(f"{url}/runs?{query}")[1]["items"]] == names


def test_any_state_can_be_chosen_again_on_the_page(url):
    status, _, body = exchange(url.removesuffix("/api/v1") + "/runs?search=&state=")
    assert (status, b'<option value="" selected>any<' in body, b"today-1" in body) == (200, True, True)


def test_a_state_that_no_run_has_is_told_with_those_that_there_are(url):
    status, _, body = exchange(url.removesuffix("/api/v1") + "/runs?state=bogus", Accept="text/html")
    assert status == 422
    states = "'done', 'going', 'stopped', 'failed' or 'unfinished'"
    assert f">query.state: Input should be {states}<" in html.unescape(body.decode())


def test_a_run_is_as_its_files_say(url):
    run = ask(f"{url}/runs/today-1")[1]
    assert (run["state"], run["pipeline"], run["message"]) == ("done", "rubicap", "trained")
    assert [stage["stage"] for stage in run["stages"]] == ["prepare", STAGE]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("today-2", "did you mean today-1?"),
        ("Tod", "did you mean today-1?"),
        ("her", "did you mean other-2?"),
        ("a", "/runs lists all"),
        ("nope", "/runs lists all"),
    ],
)
def test_an_unknown_run_is_told_with_the_name_that_was_meant(url, name, hint):
    assert ask(f"{url}/runs/{name}")[1]["detail"] == f"there is no run {name!r}; {hint}"
    assert ask(f"{url}/leaderboard?run={name}")[1]["detail"] == f"there is no run {name!r}; {hint}"


def test_half_a_line_of_statistics_waits_and_a_log_shows_no_password(url):
    assert ask(f"{url}/runs/today-1/stages/{STAGE}/steps?after=1")[1] == [{"step": 2, "reward": 0.75}]
    assert ask(f"{url}/runs/today-1/stages/{STAGE}/log")[1]["text"] == "asked https://***@host/v1\nended\n"


@pytest.mark.slow
@pytest.mark.parametrize("figure", ["Infinity", "-Infinity", "NaN", "1e999", "1e308", "9" * 400])
def test_figures_of_a_step_that_no_chart_can_hold_are_left_out(tmp_path, figure):
    run = write_run(tmp_path)
    steps = f'{{"step": 1, "reward": 0.5}}\n{{"step": 2, "reward": {figure}}}\n{{"step": 3, "reward": 1}}'
    (run / STAGE / "steps.jsonl").write_text(steps)
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.05)) as url:
        wait_for_rollouts(url)
        known = ask(f"{url}/api/v1/runs/today-1/stages/{STAGE}/steps?after=1")[1]
        assert known == [{"step": 2, "reward": None}, {"step": 3, "reward": 1}]
        assert b"<path" in exchange(f"{url}/runs/today-1")[2]
        assert exchange(f"{url}/runs/today-1/hacking")[0] == 200


def test_groups_have_the_figures_of_their_rollouts(url):
    groups = ask(f"{url}/runs/today-1/stages/{STAGE}/groups?step=2")[1]["items"]
    assert [group["sample_id"] for group in groups] == ["a", "b"]
    assert groups[0] == {
        **{"step": 2, "sample_id": "a", "rollouts": 3, "unjudged": 1},
        **{"mean": 0.75, "lowest": 0.5, "highest": 1.0},
    }


def test_pages_of_groups_are_the_whole_list(url):
    places, cursor = [], ""
    while cursor is not None:
        page = ask(f"{url}/runs/today-1/stages/{STAGE}/groups?limit=1" + (f"&cursor={cursor}" if cursor else ""))[1]
        places += [(group["step"], group["sample_id"]) for group in page["items"]]
        cursor = page["next_cursor"]
    assert places == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


def test_a_group_shows_each_response_with_its_verdicts_best_first_and_unjudged_last(url):
    group = ask(f"{url}/runs/today-1/stages/{STAGE}/groups/1/a")[1]
    assert [rollout["reward"] for rollout in group["rollouts"]] == [pytest.approx(2 / 3), 0.5, None]
    worst = group["rollouts"][-1]
    assert (worst["response"], worst["verdicts"][2]["error"]) == ("", "transport")
    assert [verdict["criterion"] for verdict in worst["verdicts"]] == NAMES


def test_group_shows_best_beside_worst_as_do_the_groups_it_links_to(url):
    rewards = [0.9, 0.8, 0.6, 0.3, None]
    members = [SimpleNamespace(reward=reward) for reward in rewards]
    order = rollouts_service.ends_first(members)
    assert [member.reward for member in order] == [0.9, 0.3, 0.8, 0.6, None]
    page = f"{url.removesuffix('/api/v1')}/runs/today-1/rollouts/{STAGE}/1/a"
    assert b"?order=ends" in exchange(page)[2]
    assert f"{STAGE}/1/b?order=ends".encode() in exchange(f"{page}?order=ends")[2]
    assert exchange(f"{page}?order=other")[0] == 422


def test_a_group_shows_what_each_criterion_weighs_and_how_the_reward_follows(tmp_path):
    run = write_run(tmp_path)
    rubric = {
        "criteria": [
            {"criterion": NAMES[0], "weight": 3.0},
            {"criterion": NAMES[1], "weight": 2.0, "essential": False},
            {"criterion": NAMES[2], "weight": -1.0},
        ]
    }
    # A weight that was one before rubrics refused it.
    old = {"criteria": [criterion | {"weight": True} for criterion in rubric["criteria"]]}
    rubrics = [{"sample_id": name, "rubric": json.dumps(item)} for name, item in (("a", rubric), ("b", old))]
    write_table(run / "synthesize_rubrics", "rubrics", rubrics)
    earned = [
        rollout(2, "a", "red", [1.0, 1.0, 1.0]) | {"reward": 4 / 5},
        rollout(2, "a", "star", [1.0, 0.0, 0.0]) | {"reward": 3 / 5},
    ]
    write_shard(run, 1, [*earned, rollout(2, "b", "star", [1.0, 0.0, 0.0])])
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.05)) as url:
        wait_for_rollouts(url)
        page, other, unknown = (
            exchange(f"{url}/runs/today-1/rollouts/{STAGE}/{place}")[2].decode() for place in ("2/a", "1/a", "1/b")
        )
    assert "met weight divided by 5" in page
    assert "<td>4 of 5</td><td>3 of 5</td>" in page
    assert page.index("Weight </span>\N{MINUS SIGN}1") < page.index("takes away if met")
    assert "additional</span>" in page
    assert "this training remaps, gates or corrects" in other, "its rewards are means without weights"
    assert "<td>5 of 5</td><td>2.5 of 5</td><td>\N{EN DASH}</td>" in other, "the last could not be judged"
    assert "weight" not in unknown.partition("<main")[2], "no rubric is known"


def test_criteria_that_never_vary_stand_first(url):
    figures = ask(f"{url}/runs/today-1/stages/{STAGE}/criteria")[1]["items"]
    assert [(figure["criterion"], figure["state"], figure["graded"]) for figure in figures] == [
        (NAMES[0], "always", 12),
        (NAMES[1], "varies", 12),
        (NAMES[2], "varies", 8),
    ]
    last = figures[-1]
    assert (last["pass_rate"], last["first"], last["last"]) == (0.5, 0.25, 0.75)
    assert last["variance"] == pytest.approx((2 * 0.25 + 2 * 0.25) / 8)


def test_criteria_are_compared_between_the_first_and_the_last_ten_steps(tmp_path):
    run = write_run(tmp_path)
    early = [rollout(step, "a", "early", [0.0, 1.0, None]) for step in range(1, 11)]
    between = [rollout(step, "b", "between", [1.0, 0.0, 1.0]) for step in range(11, 21)]
    late = [rollout(step, "c", "late", [step % 2, 1.0, None]) for step in range(21, 31)]
    write_shard(run, 0, early + between)
    write_shard(run, 1, late)
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.02)) as url:
        place = f"{url}/api/v1/runs/today-1/stages/{STAGE}/criteria"
        wait_for(lambda: [item["graded"] for item in ask(place)[1].get("items", [])] == [10, 30, 30], 60)
        figures = {item["criterion"]: (item["first"], item["last"]) for item in ask(place)[1]["items"]}
    assert figures == {NAMES[0]: (0.0, 0.5), NAMES[1]: (1.0, 1.0), NAMES[2]: (None, None)}


def test_groups_in_which_a_criterion_was_met_by_some(url):
    place = f"{url}/runs/today-1/stages/{STAGE}/flips?criterion="
    assert ask(place + "Names%20the%20star")[1] == {"items": [], "next_cursor": None}
    assert ask(place + "Names%20nothing%20else&limit=4")[1]["next_cursor"] is None


@pytest.mark.parametrize(("searched", "limit"), [(50_000, 1), (50_000, 3), (1, 50), (4, 50), (4, 1)])
def test_a_search_that_ends_early_goes_on_within_its_step(url, monkeypatch, searched, limit):
    monkeypatch.setattr(rollouts_service, "_MOST_SEARCHED", searched)
    address, seen, cursor = f"{url}/runs/today-1/stages/{STAGE}/flips?criterion=Names%20nothing%20else", [], ""
    while cursor is not None:
        page = ask(f"{address}&limit={limit}" + (f"&cursor={cursor}" if cursor else ""))[1]
        seen.append([(item["step"], item["sample_id"]) for item in page["items"]])
        cursor = page["next_cursor"]
    assert list(chain(*seen)) == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    assert len(seen) > 1
    assert all(len(page) <= limit for page in seen)


def test_a_page_without_groups_that_differ_leads_on_where_the_search_ended_early(url, monkeypatch):
    monkeypatch.setattr(rollouts_service, "_MOST_SEARCHED", 2)
    page = f"{url.removesuffix('/api/v1')}/runs/today-1/rollouts/{STAGE}?criterion=Names%20the%20star"
    body = exchange(page)[2].decode()
    assert "others did not, as far as step 1." in body
    assert "look further, from step 1</a>" in body


def test_a_list_of_some_groups_says_of_which_and_leads_to_all(url):
    place = f"{url.removesuffix('/api/v1')}/runs/today-1/rollouts/{STAGE}"
    every = f'href="/runs/today-1/rollouts/{STAGE}"'
    of_sample = exchange(f"{place}?sample_id=a")[2].decode()
    assert f"Groups of sample a alone, step by step. <a {every}>all samples</a>" in of_sample
    of_criterion = exchange(f"{place}?criterion={quote(NAMES[1])}")[2].decode()
    assert f"<a {every}>all groups</a>" in of_criterion
    assert 'name="step" min="1" max="2" value=""' in of_criterion
    assert "alone, step by step" not in exchange(place)[2].decode()


def test_an_image_comes_with_its_type_and_is_not_sent_twice(url):
    place = f"{url}/runs/today-1/samples/a/image"
    status, headers, body = exchange(place)
    assert (status, headers["content-type"], body) == (200, "image/png", png())
    assert exchange(place, **{"If-None-Match": headers["etag"]})[0] == 304
    assert ask(f"{url}/runs/today-1/samples/b/image")[0] == 404


def test_a_shard_that_is_replaced_and_a_run_that_is_deleted_are_followed(tmp_path):
    run = write_run(tmp_path)
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.02)) as url:
        groups = f"{url}/api/v1/runs/today-1/stages/{STAGE}/groups"
        wait_for(lambda: len(ask(groups)[1].get("items", [])) == 4)
        write_shard(run, 1, [rollout(2, "c", "other", [1.0, 1.0, 1.0])])
        wait_for(lambda: [item["sample_id"] for item in ask(groups)[1]["items"]] == ["a", "b", "c"])
        (run / STAGE / "rollouts" / "part-00000.parquet").write_bytes(b"no Parquet")
        wait_for(lambda: [item["sample_id"] for item in ask(groups)[1]["items"]] == ["c"])
        shutil.rmtree(run)
        wait_for(lambda: ask(f"{url}/api/v1/runs/today-1")[0] == 404)


def test_a_rollout_without_a_scorecard_takes_no_criteria_from_the_others(tmp_path):
    run = write_run(tmp_path)
    first = [rollout(1, "a", "not graded", [None] * 3), rollout(1, "a", "graded", [1.0, 0.0, 1.0])]
    write_shard(run, 0, first, graded=first[1:])
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.02)) as url:
        place = f"{url}/api/v1/runs/today-1/stages/{STAGE}"
        wait_for(lambda: len(ask(f"{place}/groups")[1].get("items", [])) == 3)
        graded, other = ask(f"{place}/groups/1/a")[1]["rollouts"]
        assert (len(graded["verdicts"]), other["verdicts"], other["reward"]) == (3, [], None)
        assert {item["criterion"]: item["graded"] for item in ask(f"{place}/criteria")[1]["items"]}[NAMES[0]] == 7


def test_scorecards_that_cannot_be_read_take_nothing_from_rollouts_and_other_runs(tmp_path):
    damaged = write_run(tmp_path, "a-damaged") / STAGE / "scorecards" / "part-00000.parquet"
    table = pq.read_table(damaged).to_pydict() | {"scorecard": ["{"] * 6}
    pq.write_table(pa.table(table), damaged)
    write_run(tmp_path, "b-sound")
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.02)) as url:
        wait_for(lambda: ask(f"{url}/api/v1/runs/b-sound/stages/{STAGE}/groups")[1].get("items"))
        groups = f"{url}/api/v1/runs/a-damaged/stages/{STAGE}/groups"
        assert len(ask(groups)[1]["items"]) == 4
        status, problem = ask(f"{groups}/1/a")
    assert status == 404
    assert "a-damaged/train_policy/scorecards: step 1 of sample 'a'" in problem["detail"]


def test_a_body_that_tells_no_length_is_refused_once_it_is_too_large(url):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=300)
    connection.request(
        "POST",
        f"{parts.path}/tokens",
        body=iter([b"x" * 1_000_000] * 3),
        encode_chunked=True,
        headers={"Transfer-Encoding": "chunked", "Idempotency-Key": "a-large-body"},
    )
    assert connection.getresponse().status == 413
    connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("place", ["", f"/rollouts/{STAGE}", f"/rollouts/{STAGE}/1/a", "/hacking"])
def test_pages_of_a_simulated_run_say_so(tmp_path, place):
    run = write_run(tmp_path)
    (run / "recipe.yaml").write_text("name: quickstart\npipeline: rubicap\nworld: {scenes: 8}\n")
    (write_run(tmp_path, "other-2") / "source.json").write_text("[" * 100_000)
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.05)) as url:
        for name in ("today-1", "other-2"):
            wait_for_rollouts(url, name)
        pages = [exchange(f"{url}/runs/{name}{place}") for name in ("today-1", "other-2")]
    assert [status for status, _, _ in pages] == [200, 200]
    assert [b"<strong>Simulated.</strong>" in body for _, _, body in pages] == [True, False]


def test_the_audit_of_a_runs_rubrics_is_a_page_that_can_do_as_little_as_the_report(tmp_path):
    run = write_run(tmp_path)
    (run / "synthesize_rubrics").mkdir()
    (run / "synthesize_rubrics" / AUDIT_PAGE).write_text("<h1>21 % flagged</h1>")
    message = "rubric.audit: 21 % are flagged; the page: file:///tmp/today-1/synthesize_rubrics/audit.html"
    (run / "error.json").write_text(json.dumps({"stage": "synthesize_rubrics", "message": message}))
    (run / "outcome.json").unlink()
    (run / "report.html").write_text("<h1>Report</h1>")
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.05)) as url:
        wait_for_rollouts(url)
        page = exchange(f"{url}/runs/today-1")[2].decode()
        audit = f"{url}/runs/today-1/rubric-audit/synthesize_rubrics"
        frame = exchange(audit)[2].decode()
        status, headers, body = exchange(f"{audit}/content")
        report = exchange(f"{url}/runs/today-1/report/content")
        missing = exchange(f"{url}/runs/today-1/rubric-audit/prepare", Accept="text/html")
    address = 'href="/runs/today-1/rubric-audit/synthesize_rubrics">'
    assert f"{address}audit of the rubrics</a>" in page
    assert f"{address}The page of the audit</a></aside>" in page
    assert 'src="/runs/today-1/rubric-audit/synthesize_rubrics/content" sandbox="allow-scripts"' in frame
    assert (status, body) == (200, b"<h1>21 % flagged</h1>")
    assert headers["content-security-policy"] == report[1]["content-security-policy"]
    assert (missing[0], b"has audited no rubrics" in missing[2]) == (404, True)


@pytest.mark.slow
@pytest.mark.parametrize(("column", "status"), [("image", 404), ("prompt", 200)])
def test_a_table_of_samples_without_a_column_is_as_none(tmp_path, column, status):
    """`ParquetFile.read` leaves out what the file does not have, and says nothing."""
    path = write_run(tmp_path, "odd-1") / "prepare" / "samples" / "part-00000.parquet"
    pq.write_table(pq.read_table(path).drop_columns(column), path)
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.05)) as url:
        wait_for(lambda: ask(f"{url}/api/v1/runs/odd-1/stages/{STAGE}/groups")[1].get("items"))
        assert exchange(f"{url}/api/v1/runs/odd-1/samples/a/image")[0] == status
        assert exchange(f"{url}/runs/odd-1/rollouts/{STAGE}/1/a", Accept="text/html")[0] == 200


@pytest.mark.parametrize(
    "name", ["..", "%2e%2e", "%252e%252e", "..%2f..%2fetc%2fpasswd", "..%5c..%5cetc", "a%00b", "file:%2f%2f%2fetc"]
)
@pytest.mark.parametrize("where", ["runs/{}", "runs/today-1/stages/{}/log", "runs/today-1/samples/{}/image"])
def test_no_name_leads_out_of_the_folder(url, where, name):
    status, _, body = exchange(f"{url}/{where.format(name)}")
    assert status in (404, 422)
    assert b"root:" not in body


@pytest.mark.parametrize("cursor", ["x", "e30", "W10", "WzEsMl0", "' OR 1=1 --", "WyIyMDI2IiwgMV0", "WzllOTk5LCJhIl0"])
@pytest.mark.parametrize("where", ["runs", f"runs/today-1/stages/{STAGE}/groups", "changes"])
def test_a_cursor_that_no_list_gave_is_refused(url, where, cursor):
    status, body = ask(f"{url}/{where}?cursor={cursor.replace(' ', '%20')}")
    assert (status, "leave it out" in body["detail"]) == (422, True)


def test_pages_show_what_a_policy_wrote_as_text(url):
    pages = url.removesuffix("/api/v1")
    status, headers, body = exchange(f"{pages}/runs/today-1/rollouts/{STAGE}/1/a")
    assert status == 200
    assert b"&lt;script&gt;alert(1)&lt;/script&gt;" in body
    assert b"<script>alert" not in body
    assert b"<b>red</b>" not in body
    assert "default-src 'self'" in headers["content-security-policy"]


@pytest.mark.parametrize(
    "page", ["/runs", "/runs/today-1", f"/runs/today-1/rollouts/{STAGE}", f"/runs/today-1/criteria/{STAGE}"]
)
def test_pages_name_the_run(url, page):
    status, _, body = exchange(url.removesuffix("/api/v1") + page)
    assert (status, b"today-1" in body) == (200, True)


def test_an_unknown_run_is_a_page_for_browsers(url):
    page = url.removesuffix("/api/v1") + "/runs/today-2"
    status, headers, body = exchange(page, Accept="text/html")
    assert (status, headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert b"did you mean today-1?" in body


class SlowStore:
    """A store of runs with a clock of its own: a list takes a second, a look at a run a tenth."""

    def __init__(self, folder, monkeypatch):
        self._store, self.looked, self.lists, self.now = open_run_store(str(folder)), [], 0, 0.0
        monkeypatch.setattr(run_index, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(RunIndex, "_rest", self.rest)

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def rest(self, seconds):
        self.now += seconds

    def names(self, rest=0.0):
        self.now, self.lists = self.now + 1 + rest, self.lists + 1
        return self._store.names(rest)

    def files(self, run):
        self.looked.append(run)
        self.now += 0.1
        return self._store.files(run)


def test_quiet_runs_are_looked_at_in_turn_and_new_ones_at_once(tmp_path, monkeypatch):
    for number in range(5):
        run = write_run(tmp_path, f"old-{number}")
        for path in [run, *run.rglob("*")]:
            os.utime(path, (1_600_000_000, 1_600_000_000))
    write_run(tmp_path, "recent")
    store = SlowStore(tmp_path, monkeypatch)

    async def looks(count):
        database = Database(f"sqlite:///{tmp_path}/x.db")
        await migrate(database)
        index, seen = RunIndex(database, store), []
        for _ in range(count):
            store.looked.clear()
            await index.look()
            seen.append(sorted(set(store.looked)))
        await database.close()
        return seen

    asyncio.run(looks(1))
    first, second, third, fourth = asyncio.run(looks(4))
    assert {*first, *second, *third, *fourth} == {"recent", *(f"old-{number}" for number in range(5))}
    assert all("recent" in seen and len(seen) < 6 for seen in (first, second, third, fourth))
    write_run(tmp_path, "new")
    assert "new" in asyncio.run(looks(1))[0]


def test_runs_are_listed_again_after_sixty_times_as_long_as_the_list_took(tmp_path, monkeypatch):
    store = SlowStore(tmp_path, monkeypatch)

    async def lists():
        database = Database(f"sqlite:///{tmp_path}/x.db")
        await migrate(database)
        index = RunIndex(database, store)
        await index.look()
        write_run(tmp_path, "new")
        seen = []
        for passed in (59.0, 1.5):
            store.now += passed
            seen.append((await index.look(), store.lists))
        await database.close()
        return seen

    assert asyncio.run(lists()) == [(0, 1), (1, 2)]


class WrittenStore:
    """A store of runs; while it is read, another writer uses the database."""

    def __init__(self, folder, database):
        self._store, self._database, self.writes = open_run_store(str(folder)), database, 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    def read(self, run, path):
        with contextlib.closing(sqlite3.connect(self._database, timeout=0)) as connection, connection:
            connection.execute("UPDATE changes SET who = who")
        self.writes += 1
        return self._store.read(run, path)


def test_other_writers_work_while_a_run_is_indexed(tmp_path):
    """SQLite has one writer at a time, and the others give up after seconds."""
    write_run(tmp_path)
    path = tmp_path / "x.db"

    async def look():
        database = Database(f"sqlite:///{path}")
        await migrate(database)
        store = WrittenStore(tmp_path, path)
        assert await RunIndex(database, store).look() == 1
        await database.close()
        return store.writes

    assert asyncio.run(look()) > 4, "the rollouts and scorecards of two shards"


def test_a_run_has_ended_in_the_index_once_its_last_shard_is_there(tmp_path):
    run, path = write_run(tmp_path), tmp_path / "x.db"
    ends = [run / STAGE / table / "part-00001.parquet" for table in ("rollouts", "scorecards")]
    ends += [run / STAGE / "done.json", run / "outcome.json"]
    contents = {end: end.read_bytes() for end in ends}
    for end in ends:
        end.unlink()
    states = []

    def row(run_name):
        with contextlib.closing(sqlite3.connect(path)) as connection:
            return connection.execute("SELECT state FROM runs WHERE name = ?", [run_name]).fetchone()

    class WatchedStore(WrittenStore):
        def read(self, run, path):
            if path.endswith("part-00001.parquet"):
                states.append(row(run))
            return self._store.read(run, path)

    async def looks():
        database = Database(f"sqlite:///{path}")
        await migrate(database)
        index = RunIndex(database, WatchedStore(tmp_path, path))
        with lock_folder(run):
            await index.look()
        before = row("today-1")
        for item, content in contents.items():
            item.write_bytes(content)
        await index.look()
        await database.close()
        return before, row("today-1")

    assert asyncio.run(looks()) == (("going",), ("done",))
    assert states == [("going",), ("going",)], "while the rollouts and the scorecards of the last steps are read"


def test_a_run_in_a_bucket_is_going_until_nothing_is_written_any_more(tmp_path, monkeypatch):
    (write_run(tmp_path) / "outcome.json").unlink()
    (tmp_path / "today-1" / STAGE / "done.json").unlink()

    async def states():
        database = Database(f"sqlite:///{tmp_path}/x.db")
        await migrate(database)
        store, seen = open_run_store(str(tmp_path)), []
        monkeypatch.setattr(store, "uri", "s3://bucket/runs")
        index = RunIndex(database, store)
        for silent_after in (records.SILENT_AFTER, timedelta(0)):
            monkeypatch.setattr(records, "SILENT_AFTER", silent_after)
            changed = await index.look()
            async with database.session() as session:
                seen.append((changed, (await get_run(session, "today-1")).state))
        await database.close()
        return seen

    assert asyncio.run(states()) == [(1, "going"), (1, "unfinished")]


def test_a_log_is_read_from_what_is_known_on_and_at_first_its_last_whole_lines(tmp_path, monkeypatch):
    log = write_run(tmp_path) / "logs" / f"{STAGE}.log"
    monkeypatch.setattr(runs_service, "_LOG_BYTES", 30)
    log.write_text("asked https://user:pa55@host/v1\n" + "step 1\nstep 2\nhalf")
    store, read = open_run_store(str(tmp_path)), []
    read_end = store.read_end
    monkeypatch.setattr(store, "read", None)
    monkeypatch.setattr(store, "read_end", lambda *place: read.append(read_end(*place)) or read[-1])
    text, begin = asyncio.run(log_after(store, "today-1", STAGE, 0))
    assert (text, begin) == ("step 1\nstep 2\n", 46), "the first line that it reached is cut in its password"
    assert asyncio.run(log_after(store, "today-1", STAGE, begin)) == ("", 46)
    with log.open("a") as file:
        file.write(" a line\n")
    assert asyncio.run(log_after(store, "today-1", STAGE, begin)) == ("half a line\n", 58)
    assert [len(content) for content, _ in read] == [30, 4, 12]
    assert asyncio.run(read_log(store, "today-1", STAGE)) == "step 1\nstep 2\nhalf a line\n"
    log.write_text("anew\n")
    assert asyncio.run(log_after(store, "today-1", STAGE, 58)) == ("anew\n", 5)


def test_the_last_words_of_a_killed_stage_are_shown_though_their_line_has_no_end(tmp_path):
    (write_run(tmp_path) / "logs" / f"{STAGE}.log").write_text("step 1\nout of memo")
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.02)) as url:
        wait_for(lambda: ask(f"{url}/api/v1/runs/today-1")[0] == 200)
        assert "step 1\nout of memo</pre>" in exchange(f"{url}/runs/today-1/log/{STAGE}")[2].decode()
        events = exchange(f"{url}/api/v1/runs/today-1/stages/{STAGE}/log/events?after=7")[2].decode()
        assert events.split("\n\n")[:2] == ['id: 18\nevent: lines\ndata: "out of memo"', "event: end\ndata: {}"]


def test_a_storage_that_comes_later_is_opened_when_it_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(run_storage, "_AGAIN_AFTER", 0.02)
    database = SecretStr(f"sqlite:///{tmp_path}/x.db")
    with served(ApiSettings(storage=str(tmp_path / "later"), database=database, index_seconds=0.02)) as url:
        steps = f"{url}/api/v1/runs/today-1/stages/{STAGE}/steps"
        status, body = ask(steps)
        assert (status, "does not answer" in body["detail"]) == (503, True)
        write_run(tmp_path / "later")
        wait_for(lambda: ask(steps)[0] == 200)


def write_progress(run, stage, done, dollars=0.0, waiting=""):
    rest = {"unit": "steps", "rate": 2.0, "seconds_left": 14.0, "tokens": 5_000, "dollars": dollars, "waiting": waiting}
    path = run / "state" / stage / "progress.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"done": done, "total": 40, **rest}))
    return path


@pytest.mark.slow
def test_running_run_shows_progress_of_stages_cost_and_what_pods_wait_for(tmp_path, capsys, monkeypatch):
    with lock_folder(tmp_path / "today-1"):
        run = write_run(tmp_path)
        (run / STAGE / "done.json").unlink()
        write_progress(run, "prepare", 40)
        progress = write_progress(run, STAGE, 12, dollars=1.5)
        with served(ApiSettings(storage=str(tmp_path), index_seconds=0.02)) as url:
            api = f"{url}/api/v1/runs"
            wait_for(lambda: ask(f"{api}/today-1")[1].get("state") == "going")
            (shown,) = ask(f"{api}/today-1")[1]["progress"]
            assert shown == {"stage": STAGE, **json.loads(progress.read_text())}
            assert ask(api)[1]["items"][0]["progress"] == [shown]
            for page in ("/runs", "/runs/today-1"):
                assert b"12/40 steps, 2/s, ETA 14 s" in exchange(url + page)[2]
            assert b"$1.50 so far" in exchange(f"{url}/runs")[2]
            write_progress(run, STAGE, 13, waiting="1 of 2 parts wait: \x1b[31mexceeded\0 quota: <b>")
            wait_for(lambda: b"1 of 2 parts wait: [31mexceeded quota: &lt;b&gt;" in exchange(f"{url}/runs")[2])
            for options in (["--runs", str(tmp_path)], []):
                monkeypatch.setenv("RUBRICWORKS_API", url)
                with pytest.raises(SystemExit):
                    main(["runs", "show", "today-1", *options])
                assert f"{STAGE}: 1 of 2 parts wait: [31mexceeded quota: <b>" in capsys.readouterr().out.splitlines()
            progress.write_text('{"done": 12')
            wait_for(lambda: ask(f"{api}/today-1")[1]["progress"] == [])


def test_progress_is_read_of_the_present_attempt_and_of_runs_that_are_going_alone(tmp_path, monkeypatch):
    run = write_run(tmp_path)
    for name in ("outcome.json", f"{STAGE}/done.json"):
        (run / name).unlink()
    write_progress(run, STAGE, 12)
    store, read = open_run_store(str(tmp_path)), []
    monkeypatch.setattr(store, "read", lambda run, path, of=store.read: read.append(path) or of(run, path))
    assert run_record(store, "today-1").progress == ()
    assert not [path for path in read if "progress" in path]
    monkeypatch.setattr(records, "is_going", lambda *_, **__: True)
    assert [(item.stage, item.done) for item in run_record(store, "today-1").progress] == [(STAGE, 12)]
    attempt = run / "state" / STAGE / "attempt.json"
    attempt.write_text("{}")
    os.utime(attempt, (attempt.stat().st_mtime + 9,) * 2)
    assert run_record(store, "today-1").progress == ()


@pytest.mark.slow
def test_a_group_is_read_without_pandas(tmp_path):
    write_run(tmp_path)
    code = f"""
import sys
from rubricworks.platform_api.db.tables import Shard
from rubricworks.platform_api.services.rollouts import read_group
from rubricworks.runs.store import open_run_store
shard = Shard(run="today-1", stage="{STAGE}", number=1, rows=1, size=1, modified=None)
assert len(read_group(open_run_store({str(tmp_path)!r}), shard, 2, "a")) == 3
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_texts_that_postgres_refuses_are_shown_with_legal_characters(tmp_path):
    write_odd_run(tmp_path)
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.02)) as url:
        check_odd_run(f"{url}/api/v1")


def test_a_row_that_the_database_refuses_keeps_no_other_run_from_the_index(tmp_path):
    path = write_run(tmp_path, "a-refused") / STAGE / "rollouts" / "part-00000.parquet"
    table = pq.read_table(path)
    pq.write_table(pa.table(table.to_pydict() | {"step": pa.nulls(table.num_rows, pa.int64())}), path)
    write_run(tmp_path, "b-sound")
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.02)) as url:
        wait_for(lambda: ask(f"{url}/api/v1/runs/b-sound/stages/{STAGE}/groups")[1].get("items"))
