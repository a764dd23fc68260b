"""A page that follows a run shows what was committed as soon as it is indexed: it is told, and does not ask."""

from collections.abc import Iterator

import pytest
from browser import chromium
from playwright.sync_api import Browser, expect
from served_api import ask, served, wait_for
from trained_run import STAGE, write_run

from rubricworks.platform_api.routers import runs as runs_router
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.runs.folder_lock import lock_folder

pytestmark = pytest.mark.slow
NEVER = 3600.0
"""Seconds between two looks of a stream that is told nothing: longer than the test."""
WATCH = """
    window.changes = [];
    new MutationObserver(() => changes.push(performance.timeOrigin + performance.now()))
        .observe(document.getElementById("live"), {childList: true, subtree: true});
"""


@pytest.fixture
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def test_a_commit_is_pushed_to_the_page_without_a_poll(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(runs_router, "_SECONDS", NEVER)
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.1)) as url, lock_folder(tmp_path / "going-1"):
        run = write_run(tmp_path, "going-1")
        shards = [run / STAGE / table / "part-00001.parquet" for table in ("scorecards", "rollouts")]
        written = {path: path.read_bytes() for path in (*shards, run / "outcome.json")}
        for path in written:
            path.unlink()
        groups = f"{url}/api/v1/runs/going-1/stages/{STAGE}/groups"
        wait_for(lambda: len(ask(groups)[1].get("items", [])) == 2)
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        with page.expect_response("**/events"):
            page.goto(f"{url}/runs/going-1/rollouts/{STAGE}")
        steps = page.locator("tbody tr td:first-child")
        expect(steps.first).to_have_text("1")
        page.evaluate(WATCH)
        before = len(asked)
        for path in shards:
            path.write_bytes(written[path])
        committed = shards[-1].stat().st_mtime * 1000
        expect(steps.first).to_have_text("2")
        changes = page.evaluate("changes")
        assert changes, "the page was loaded anew"
        assert changes[-1] > committed
        streamed = [address for address in asked if address.endswith("/events")]
        assert len(streamed) == 1, "the stream of before brought it"
        fetched = [address for address in asked[before:] if address.endswith(f"/rollouts/{STAGE}")]
        assert 1 <= len(fetched) <= 2, "once for each of the two files at most: the page does not poll"
