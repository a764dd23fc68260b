"""Six tasks of somebody who knows W&B, by clicks that are counted, and runs compared, stopped and noted by keys."""

import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from browser import chromium
from playwright.sync_api import Browser, Page, expect
from served_api import Caller, bearer, served, wait_for, wait_for_rollouts
from test_pages_in_browser import log_in, settings
from trained_run import NAMES, STAGE, finish_tables, write_run

from rubricworks.platform_api.services.submission import local_runs
from rubricworks.recipe.files import recipe_path
from rubricworks.runs.folder_lock import lock_folder

pytestmark = pytest.mark.slow
MOST_CLICKS = 3


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, reward in (("yesterday-1", 0.4), ("best-1", 0.9), ("today-1", 0.6)):
        run = write_run(folder, name)
        finish_tables(run)
        lines = [json.dumps({"step": at, "reward": reward, "length": 9.0}) for at in range(1, 21)]
        (run / STAGE / "steps.jsonl").write_text("\n".join(lines))
        (run / "recipe.yaml").write_text(f"name: quickstart\nseed: {len(name)}\npolicy: {{steps: 20}}\n")
    (folder / "yesterday-1" / "outcome.json").write_text('{"state": "CANCELLED", "message": "stopped"}')
    return folder


@pytest.fixture(scope="module")
def caller(folder) -> Iterator[Caller]:
    with served(settings(folder)) as url:
        for name in ("yesterday-1", "best-1", "today-1"):
            wait_for_rollouts(url, name, **bearer())
        yield Caller(url)


class Clicks:
    """A page whose clicks are counted from the list of runs on."""

    def __init__(self, browser: Browser, caller: Caller) -> None:
        self.page = log_in(browser, caller, "admin-wanda", viewport={"width": 1280, "height": 800})
        self.count = 0

    def click(self, name: str, role: str = "link") -> Page:
        self.page.get_by_role(role, name=name, exact=True).first.click()
        self.count += 1
        return self.page


def test_six_tasks_take_three_clicks_each_or_one_command(browser, caller):
    # 1. The best run of the week: two choices, and Apply.
    best = Clicks(browser, caller)
    best.page.locator("select[name=days]").select_option(label="last 7 days")
    best.page.locator("select[name=sort]").select_option(label="Reward")
    best.click("Apply", "button")
    best.count += 2  # the choices
    expect(best.page.locator("tbody tr").first).to_contain_text("best-1")
    assert "days=7" in best.page.url
    assert "sort=reward" in best.page.url
    assert best.count <= MOST_CLICKS
    # 2. Why it won: its criteria, those that vary with their share at first and at last.
    why = Clicks(browser, caller)
    why.click("best-1")
    why.click("Criteria")
    expect(why.page.get_by_role("link", name=NAMES[0], exact=True)).to_be_visible()
    assert why.count <= MOST_CLICKS
    # 3. Its worst rollouts by a criterion.
    worst = Clicks(browser, caller)
    worst.click("best-1")
    worst.click("Criteria")
    worst.click(f"worst rollouts by {NAMES[2]}")
    expect(worst.page.locator("tbody tr").first).to_contain_text("a star")
    assert worst.count <= MOST_CLICKS
    # 4. The difference to yesterday's: two ticks, and Compare.
    diff = Clicks(browser, caller)
    diff.click("Compare yesterday-1", "checkbox")
    diff.click("Compare best-1", "checkbox")
    diff.click("Compare", "button")
    settings_table = diff.page.get_by_role("region", name="Settings")
    expect(settings_table).to_contain_text("seed")
    expect(settings_table).not_to_contain_text("policy.steps")
    assert diff.count <= MOST_CLICKS
    # 5. How to resume: the page of the run says it.
    resume = Clicks(browser, caller)
    resume.click("yesterday-1")
    expect(resume.page.get_by_text("rubricworks run --resume yesterday-1")).to_be_visible()
    assert resume.count <= MOST_CLICKS
    # 6. The data in pandas: the page gives the line, and each file is a click away.
    take = Clicks(browser, caller)
    take.click("best-1")
    take.click("Artifacts")
    line = take.page.get_by_text("pandas.read_parquet").text_content()
    assert line == f'pandas.read_parquet("runs/best-1/{STAGE}/rollouts")'
    with take.page.expect_download() as downloading:
        take.click(f"{STAGE}/rollouts/part-00000.parquet")
    assert pq.read_table(downloading.value.path())["step"].to_pylist() == [1] * 6
    assert take.count <= MOST_CLICKS
    for task in (best, why, worst, diff, resume, take):
        task.page.context.close()


def test_runs_are_chosen_and_compared_by_keys_and_too_few_are_not(browser, caller):
    page = log_in(browser, caller, "viewer-carl", viewport={"width": 1280, "height": 800})
    compare = page.get_by_role("button", name="Compare", exact=True)
    expect(compare).to_be_disabled()
    for key in ("j", "x", "j", "x"):
        page.keyboard.press(key)
    expect(page.get_by_text("2 ticked")).to_be_visible()
    expect(page.locator("tr.current a").first).to_be_focused()
    page.keyboard.press("c")
    page.wait_for_url("**/compare-runs?*")
    expect(page.locator(".chart").first).to_be_visible()
    page.context.close()


def test_a_long_page_folds_on_a_phone_and_opens_by_key(browser, caller):
    page = log_in(browser, caller, "viewer-carl", viewport={"width": 390, "height": 800})
    page.goto(f"{caller.pages}/compare-runs?run=best-1&run=today-1")
    expect(page.get_by_role("region", name="Results")).to_be_visible()
    expect(page.locator(".chart").first).not_to_be_visible()
    curves = page.locator("summary", has_text="Curves")
    curves.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".chart").first).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 800})
    page.reload()
    expect(page.locator(".chart").first).to_be_visible()
    page.context.close()


def test_a_note_is_kept_while_a_live_page_goes_on(browser, folder, caller):
    page = log_in(browser, caller, "runner-anna")
    with lock_folder(folder / "going-1"):
        run = write_run(folder, "going-1")
        (run / "outcome.json").unlink()
        wait_for(lambda: caller.get("runs/going-1").get("state") == "going")
        page.goto(f"{caller.pages}/runs/going-1?edit=notes")
        page.get_by_label("Note").fill("the judge is slow")
        (run / "logs" / "prepare.log").write_text("a line\n")
        expect(page.get_by_role("link", name="log of prepare")).to_be_visible()
        expect(page.get_by_label("Note")).to_have_value("the judge is slow")
        page.get_by_label("Tags").fill("night, judge-b")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("the judge is slow")).to_be_visible()
        page.get_by_role("link", name="judge-b").click()
        expect(page.locator("tbody tr")).to_have_count(1)
        (run / "outcome.json").write_text('{"state": "SUCCEEDED", "message": "trained"}')
    page.context.close()


STANDING_CHILD = """
    import os, signal, sys, time
    name, runs = sys.argv[sys.argv.index("--run") + 1], sys.argv[sys.argv.index("--runs") + 1]
    def stop(*_):
        print("stopped", flush=True)
        sys.exit(130)
    signal.signal(signal.SIGINT, stop)
    print("run", name, flush=True)
    while True:
        time.sleep(0.02)
"""


def test_a_submitted_run_shows_at_once_and_its_stop_is_confirmed_by_keys(browser, tmp_path, monkeypatch):
    script, runs = tmp_path / "child.py", tmp_path / "runs"
    runs.mkdir()
    script.write_text(textwrap.dedent(STANDING_CHILD))
    monkeypatch.setattr(local_runs, "COMMAND", (sys.executable, str(script)))
    with served(settings(runs)) as url:
        caller = Caller(url)
        page = log_in(browser, caller, "runner-anna")
        body = {"recipe": recipe_path("quickstart").read_text(), "run": "waits-1", "place": "here"}
        assert caller.post("runner-anna", "submissions", body)[0] == 201
        page.goto(f"{url}/runs")
        expect(page.locator("tbody tr")).to_contain_text(["starting"])
        page.get_by_role("link", name="waits-1", exact=True).click()
        stop = page.locator("#stop")
        stop.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**?confirm=stop")
        expect(page.get_by_role("alertdialog")).to_contain_text("What the stages committed stays")
        assert caller.get("submissions/waits-1")["state"] == "going", "asking stops nothing"
        page.get_by_role("link", name="Keep it going").click()
        stop.click()
        page.get_by_role("button", name="Stop the run").press("Enter")
        expect(page.locator(".state").first).to_have_text("stopped")
        expect(page.get_by_text("clone it")).to_be_visible()
        page.goto(f"{url}/runs?state=stopped")
        expect(page.locator("tbody tr")).to_contain_text(["waits-1"])
    page.context.close()
