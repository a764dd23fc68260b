"""The platform in a real browser: from a recipe to a rolled back champion, every page on a desk and on a phone."""

import json
import shutil
import sys
import textwrap
import threading
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright
from pydantic import SecretStr
from served_api import TOKEN, Caller, ask, bearer, served, wait_for
from stored_audit import write_audit
from test_promotions import Consumer, add_version, aliases
from trained_run import NAMES, STAGE, rubric, write_rubrics, write_run, write_table

from rubricworks.platform_api.services.submission import local_runs
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.runs.folder_lock import lock_folder

pytestmark = pytest.mark.e2e
CHILD = """
    import sys, time
    from pathlib import Path
    sys.path[:0] = {path}
    from trained_run import STAGE, write_run
    from rubricworks.runs.folder_lock import lock_folder
    runs, name = Path(sys.argv[sys.argv.index("--runs") + 1]), sys.argv[sys.argv.index("--run") + 1]
    with lock_folder(runs / name):
        run = write_run(runs, name)
        later = [run / STAGE / table / "part-00001.parquet" for table in ("scorecards", "rollouts")]
        shards = [(path, path.read_bytes()) for path in later]
        outcome = (run / "outcome.json").read_bytes()
        for path in (*later, run / "outcome.json", run / STAGE / "done.json"):
            path.unlink()
        print("step 1 is trained", flush=True)
        while not (runs / "go").exists():
            time.sleep(0.02)
        for path, content in shards:
            path.write_bytes(content)
        while not (runs / "end").exists():
            time.sleep(0.02)
        (run / STAGE / "done.json").write_text("{{}}")
        (run / "outcome.json").write_bytes(outcome)
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def consumer() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), Consumer)
    server.messages, server.answers = [], []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()


def settings(runs: Path, **more: object) -> ApiSettings:
    return ApiSettings(storage=str(runs), token=SecretStr(TOKEN), index_seconds=0.1, local_runs=True, **more)


def log_in(browser: Browser, caller: Caller, who: str, **options: object) -> Page:
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(15_000)
    page.goto(f"{caller.pages}/login")
    page.get_by_label("Token").fill(caller.secret(who))
    page.get_by_role("main").get_by_role("button", name="Log in").click()
    page.wait_for_url("**/runs")
    return page


def decide(page: Page, caller: Caller, button: str, reason: str) -> None:
    """Fill in the reason beside a button of the promotions' page, and press it."""
    page.goto(f"{caller.pages}/promotions")
    form = page.locator("form", has=page.get_by_role("button", name=button))
    form.locator("input[name=reason]").fill(reason)
    form.get_by_role("button", name=button).click()


def test_from_a_recipe_to_a_champion_and_back(browser, consumer, tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    script, runs = tmp_path / "child.py", tmp_path / "runs"
    runs.mkdir()
    script.write_text(textwrap.dedent(CHILD.format(path=json.dumps([path for path in sys.path if path]))))
    monkeypatch.setattr(local_runs, "COMMAND", (sys.executable, str(script)))
    hook = {"webhook_url": f"http://127.0.0.1:{consumer.server_port}/hook", "webhook_secret": SecretStr("k3y")}
    with served(settings(runs, **hook)) as url:
        caller = Caller(url)
        anna = log_in(browser, caller, "runner-anna")
        # Submit a recipe, and watch it.
        anna.goto(f"{url}/new-run?recipe=quickstart")
        anna.get_by_label("Name").fill("browsed")
        anna.get_by_role("button", name="Start").click()
        expect(anna.get_by_label("Output")).to_contain_text("step 1 is trained", timeout=15_000)
        wait_for(lambda: caller.get("runs/browsed").get("state") == "going")
        wait_for(lambda: caller.get(f"runs/browsed/stages/{STAGE}/groups").get("items"))
        anna.get_by_role("link", name="stages and rollouts").click()
        anna.get_by_role("link", name=f"rollouts of {STAGE}").click()
        expect(anna.locator("tbody tr")).to_have_count(2)
        expect(anna.locator("tbody tr").first).to_contain_text("1")
        (runs / "go").touch()
        expect(anna.locator("tbody tr td").first).to_have_text("2", timeout=15_000)
        (runs / "end").touch()
        # Rollouts by keys: j, Enter, then the reason of a verdict.
        anna.keyboard.press("j")
        expect(anna.locator("tr.current")).to_have_count(1)
        anna.keyboard.press("Enter")
        expect(anna.get_by_role("heading", level=1)).to_have_text("Sample a")
        anna.get_by_text("why").first.click()
        expect(anna.get_by_text("because").first).to_be_visible()
        # Label by keys, without the verdicts.
        anna.get_by_role("link", name="label a response").click()
        expect(anna.get_by_text("because")).to_have_count(0)
        for key in ("j", "y", "j", "n"):
            anna.keyboard.press(key)
        anna.get_by_role("button", name="Save and show the next").click()
        anna.wait_for_url("**/label/**")
        expect(anna.get_by_text("You have given 2 labels")).to_be_visible()
        labels = {one["criterion"]: one["credit"] for one in caller.get(f"runs/browsed/stages/{STAGE}/labels")["items"]}
        assert labels == {NAMES[0]: 1.0, NAMES[1]: 0.0}
        # Promotion: a request, another person's approval, the consumer's confirmation, and back.
        bert = log_in(browser, caller, "approver-bert")
        first = add_version(runs)
        decide(anna, caller, f"Request {first}", "it is better")
        decide(bert, caller, "Approve", "so it is")
        expect(bert.get_by_text("applied", exact=True)).to_be_visible()
        wait_for(lambda: consumer.messages)
        message = json.loads(consumer.messages[0][1])
        assert caller.post("runner-consumer", message["confirm"].removeprefix("/api/v1/"))[0] == 200
        bert.reload()
        expect(bert.get_by_text("confirmed", exact=True)).to_be_visible()
        second = add_version(runs, against=first)
        decide(anna, caller, f"Request {second}", "better still")
        expect(anna.get_by_role("button", name="Approve")).to_have_count(0)
        decide(bert, caller, "Approve", "yes")
        assert aliases(runs) == (second, first)
        decide(bert, caller, f"Roll back to {first}", "it lists")
        expect(bert.get_by_text("rollback", exact=True)).to_be_visible()
        assert aliases(runs)[0] == first
        done = [
            one["action"] for one in caller.get("changes?limit=200")["items"] if not one["action"].startswith("token")
        ]
        assert done[:2] == ["rollback.apply", "rollback.request"]
        assert {"run.submit", "label.set", "promotion.request", "promotion.apply", "promotion.confirm"} <= set(done)
        for page in (anna, bert):
            page.context.close()


def test_a_run_that_fails_while_it_is_watched_says_so_and_is_asked_for_no_more(browser, tmp_path):
    with served(settings(tmp_path)) as url:
        caller = Caller(url)
        page = log_in(browser, caller, "runner-anna")
        with lock_folder(tmp_path / "watched-1"):
            run = write_run(tmp_path, "watched-1")
            (run / "outcome.json").unlink()
            wait_for(lambda: caller.get("runs/watched-1").get("state") == "going")
            page.goto(f"{url}/runs/watched-1")
            expect(page.get_by_role("button", name="Stop")).to_be_visible()
            (run / "error.json").write_text(json.dumps({"stage": STAGE, "message": "out of memory"}))
        expect(page.get_by_text("out of memory")).to_be_visible()
        expect(page.locator(".state").first).to_have_text("failed")
        expect(page.get_by_role("button", name="Stop")).to_have_count(0)
        assert page.locator("[hx-get]").count() == 0, "it would poll for ever"


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Iterator[tuple[Caller, list[str]]]:
    """A service over a run with something for every page, and the pages."""
    folder = tmp_path_factory.mktemp("runs")
    run = write_run(folder)
    write_rubrics(run)
    write_rubrics(write_run(folder, "yesterday-1"), samples=("a", "b", "x"))
    write_audit(run / "audit")
    steps = [
        {
            "step": at,
            "reward": 0.4 + at / 100,
            "objects": 2 + at / 20,
            "length": 9.0,
            "held_out": 0.5 if at % 9 == 1 else None,
        }
        for at in range(1, 61)
    ]
    (run / STAGE / "steps.jsonl").write_text("\n".join(map(json.dumps, steps)))
    (run / STAGE / "alarm.json").write_text(json.dumps({"step": 52, "reasons": ["objects went from 2.0 to 3.2"]}))
    (run / "ledger.jsonl").write_text('{"stage": "prepare", "seconds": 3}\n{"stage": "train_policy", "seconds": 90}\n')
    models = {"base": (0.2, 0.4, 0.3), "policy": (0.6, 0.5, 0.9)}
    scored = {"decoding": "greedy", "revision": "r", "version": "1"}
    rows = [
        {"sample_id": sample, "model": name, "scorer": "oracle", "part": "f1", "value": value} | scored
        for name, values in models.items()
        for sample, value in zip("abc", values, strict=True)
    ]
    write_table(run / "score", "scores", rows)
    answers = [row | {"response": f"{row['model']} sees {row['sample_id']} " * 9} for row in rows]
    columns = ("sample_id", "model", "revision", "decoding", "response")
    write_table(run / "score" / "responses", "responses", [{name: row[name] for name in columns} for row in answers])
    letter = {"sample_id": "a", "stage": "prepare", "purpose": "caption", "reason": "malformed", "message": "m " * 60}
    write_table(run / "prepare" / "dead_letters", "dead_letters", [letter | {"raw": "{" * 300, "request": "r"}])
    place = "/runs/today-1"
    with served(settings(folder)) as url:
        caller = Caller(url)
        wait_for(lambda: ask(f"{url}/api/v1{place}/preferences/models", **bearer())[0] == 200)
        proposal = {"rubric": rubric(*NAMES), "replaces": 1, "reason": "shorter"}
        assert caller.post("runner", f"{place[1:]}/rubrics/synthesize_rubrics/a/versions", proposal)[0] == 201
        rubrics = f"{place}/rubrics/synthesize_rubrics"
        yield (
            caller,
            [
                *("/runs", place, f"{place}/rollouts/{STAGE}", f"{place}/rollouts/{STAGE}/1/a"),
                *(f"{place}/criteria/{STAGE}", f"{place}/log/{STAGE}", f"{place}/hacking", "/new-run"),
                *("/rubrics", rubrics, f"{rubrics}/criteria", f"{rubrics}/a", f"{rubrics}/a/diff?after=2"),
                *(f"{rubrics}/{page}?before_set=yesterday-1/synthesize_rubrics" for page in ("compare", "a/diff")),
                *(f"{rubrics}/a/edit", "/leaderboard", "/dead-letters", f"{place}/dead-letters"),
                *(f"{place}/label/{STAGE}", f"{place}/compare", f"{place}/agreement/{STAGE}"),
                *("/promotions", "/changes", "/tokens"),
            ],
        )


@pytest.mark.parametrize(
    ("width", "scheme", "rules"),
    # A phone has the same elements in the same colours; dark pages differ in their colours alone.
    [(1280, "light", {}), (1280, "dark", {"runOnly": ["color-contrast"]}), (390, "light", None)],
)
def test_every_page_fits_its_screen_and_can_be_read_by_everybody(browser, pages, width, scheme, rules):
    caller, paths = pages
    page = log_in(browser, caller, "admin-eve", viewport={"width": width, "height": 800}, color_scheme=scheme)
    problems, found = [], []
    page.on("pageerror", lambda error: problems.append(str(error)))
    axe = Axe()
    for path in paths:
        answer = page.goto(caller.pages + path)
        assert answer is not None
        found += [f"{path}: status {answer.status}"] if answer.status != 200 else []
        found += [f"{path}: the window scrolls sideways"] * page.evaluate(
            "document.documentElement.scrollWidth > window.innerWidth"
        )
        found += [
            f"{path}: {one['id']} at {one['nodes'][0]['target']}"
            for one in (axe.run(page, options=rules).response["violations"] if rules is not None else [])
            if one["impact"] in ("serious", "critical")
        ]
    page.context.close()
    assert (found, problems) == ([], [])
