"""The platform in a real browser: from a recipe to a rolled back champion, every page on a desk and on a phone."""

import contextlib
import json
import os
import re
import sys
import textwrap
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import chromium
from kubeflow_api import FakeKubeflow
from playwright.sync_api import Browser, Page, Route, expect
from pydantic import SecretStr
from served_api import TOKEN, Caller, bearer, served, wait_for, wait_for_rollouts
from test_promotions import MODEL, Consumer, add_version, aliases
from test_runs_and_rollouts import write_progress
from test_runs_on_kubeflow import POLICY, RECIPE
from trained_run import NAMES, STAGE, finish_tables, rubric, write_rubrics, write_run, write_table
from whole_run import write_whole_run

from rubricworks.data.alarm import Alarm
from rubricworks.platform_api.app import ROUTERS
from rubricworks.platform_api.services.judgements.labels import response_digest
from rubricworks.platform_api.services.submission import local_runs
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.recipe.files import recipe_path
from rubricworks.runs.folder_lock import lock_folder
from rubricworks.tracking import Gate, TrackingConfig, connect, registry
from rubricworks.tracking.gate import FINDINGS_TAG

pytestmark = pytest.mark.slow
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
    with chromium() as browser:
        yield browser


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
    page.set_default_timeout(150_000)
    expect.set_options(timeout=150_000)
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
        anna.get_by_role("link", name="Rollouts", exact=True).click()
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
        anna.wait_for_url("**/label/**")  # keys before the page's script is loaded are nobody's
        expect(anna.get_by_text("because")).to_have_count(0)
        for key in ("j", "y", "j", "n"):
            anna.keyboard.press(key)
        anna.get_by_role("button", name="Save and show the next").click()
        anna.wait_for_url("**/label/**")
        expect(anna.get_by_text("You have given 2 labels")).to_be_visible()
        labels = {
            item["criterion"]: item["credit"] for item in caller.get(f"runs/browsed/stages/{STAGE}/labels")["items"]
        }
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
            item["action"]
            for item in caller.get("changes?limit=200")["items"]
            if not item["action"].startswith("token")
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
            expect(page.get_by_text("started in a terminal: stop it there, with Ctrl-C")).to_be_visible()
            log = page.get_by_role("link", name=f"log of {STAGE}")
            log.focus()
            drawn = log.element_handle()
            (run / "logs" / "prepare.log").write_text("a line\n")
            drawn.wait_for_element_state("hidden")  # drawn anew
            expect(log).to_be_focused()
            (run / "error.json").write_text(json.dumps({"stage": STAGE, "message": "out of memory"}))
        expect(page.get_by_text("out of memory")).to_be_visible()
        expect(page.locator(".state").first).to_have_text("failed")
        expect(page.get_by_text("stop it there")).to_have_count(0)
        assert page.locator("[hx-get]").count() == 0, "it would poll for ever"


def test_a_run_that_ends_before_its_events_are_followed_shows_its_last_step(browser, tmp_path):
    with served(settings(tmp_path)) as url, contextlib.ExitStack() as lock:
        caller = Caller(url)
        page = log_in(browser, caller, "runner-anna")
        lock.enter_context(lock_folder(tmp_path / "short-1"))
        run = write_run(tmp_path, "short-1")
        last = [run / STAGE / table / "part-00001.parquet" for table in ("scorecards", "rollouts")]
        written = {path: path.read_bytes() for path in (*last, run / "outcome.json")}
        for path in written:
            path.unlink()
        groups = f"runs/short-1/stages/{STAGE}/groups"
        wait_for(lambda: len(caller.get(groups).get("items", [])) == 2)

        def end(route: Route) -> None:
            for path, content in written.items():
                path.write_bytes(content)
            lock.close()
            wait_for(lambda: len(caller.get(groups)["items"]) == 4)
            wait_for(lambda: caller.get("runs/short-1")["state"] == "done")
            route.continue_()

        page.route("**/events", end)
        page.goto(f"{url}/runs/short-1/rollouts/{STAGE}")
        expect(page.locator("tbody tr td").first).to_have_text("2")
        expect(page.get_by_text("The run is going")).to_have_count(0)


RUN = "/runs/today-1"
GOING = "going-1"
LONG_NAME = "captions-of-streets-with-a-judge-that-reads-signs-and-a-longer-warm-up-than-that-of-may-1"
RUBRICS = f"{RUN}/rubrics/synthesize_rubrics"
JUDGES = f"{RUN}/compare-judges?with=yesterday-1"
EXCHANGE = f"/runs/asked-1/rollouts/{STAGE}/1/a/exchange?response={response_digest('a star')}"
OTHER_SET = "before_set=yesterday-1/synthesize_rubrics"
EVERY_COLUMN = "&".join(f"column={name}" for name in ("state", "reward", "win_rate", "champion", "owner", "tags"))
ADDRESSES = {
    "/": ["/"],
    "/runs": ["/runs", "/runs?search=nothing-of-that-name", "/runs?where=bogus", f"/runs?{EVERY_COLUMN}&sort=reward"],
    "/compare-runs": [f"/compare-runs?run=today-1&run=asked-1&run={LONG_NAME}", "/compare-runs?run=today-1"],
    "/runs/{run}": [
        *(RUN, f"/runs/{LONG_NAME}", f"/runs/{GOING}", "/runs/asked-1", f"{RUN}?edit=notes", "/runs/monday"),
        *(f"{run}?tab={tab}" for run in (RUN, "/runs/mine") for tab in ("curves", "costs", "recipe", "artifacts")),
    ],
    "/runs/{run}/report": [f"{RUN}/report"],
    "/runs/{run}/report/content": [f"{RUN}/report/content"],
    "/runs/{run}/rubric-audit/{stage}": [f"{RUN}/rubric-audit/synthesize_rubrics"],
    "/runs/{run}/rubric-audit/{stage}/content": [f"{RUN}/rubric-audit/synthesize_rubrics/content"],
    "/runs/{run}/log/{stage}": [f"{RUN}/log/{STAGE}"],
    "/runs/{run}/rollouts/{stage}": [f"{RUN}/rollouts/{STAGE}"],
    "/runs/{run}/responses/{stage}": [
        f"{RUN}/responses/{STAGE}?{query}"
        for query in ("text=STAR", "criterion=Names%20the%20star&sort=reward", "truncated=true&x=bogus", "text=no")
    ],
    "/runs/{run}/rollouts/{stage}/{step}/{sample_id}": [
        f"{RUN}/rollouts/{STAGE}/1/a",
        f"{RUN}/rollouts/{STAGE}/1/a?response={response_digest('a star')}",
    ],
    "/runs/{run}/rollouts/{stage}/{step}/{sample_id}/exchange": [EXCHANGE],
    "/runs/{run}/criteria/{stage}": [f"{RUN}/criteria/{STAGE}"],
    "/tokens": ["/tokens"],
    "/changes": ["/changes"],
    "/project": ["/project"],
    "/login": ["/login"],
    "/login/start": ["/login/start"],
    "/login/callback": ["/login/callback"],
    "/rubrics": ["/rubrics"],
    "/runs/{run}/rubrics/{stage}": [RUBRICS],
    "/runs/{run}/rubrics/{stage}/compare": [f"{RUBRICS}/compare?{OTHER_SET}"],
    "/runs/{run}/rubrics/{stage}/criteria": [f"{RUBRICS}/criteria"],
    "/runs/{run}/rubrics/{stage}/{sample_id}": [f"{RUBRICS}/a"],
    "/runs/{run}/rubrics/{stage}/{sample_id}/diff": [f"{RUBRICS}/a/diff?after=2", f"{RUBRICS}/a/diff?{OTHER_SET}"],
    "/runs/{run}/rubrics/{stage}/{sample_id}/edit": [f"{RUBRICS}/a/edit"],
    "/new-run": ["/new-run", "/new-run?clone=today-1"],
    "/submissions/{run}": ["/submissions/mine", "/submissions/monday"],
    "/kubeflow-runs": ["/kubeflow-runs"],
    "/kubeflow-runs/{run}": ["/kubeflow-runs/monday"],
    "/runs/{run}/hacking": [f"{RUN}/hacking"],
    "/leaderboard": ["/leaderboard"],
    "/dead-letters": ["/dead-letters"],
    "/runs/{run}/dead-letters": [f"{RUN}/dead-letters"],
    "/runs/{run}/label/{stage}": [f"{RUN}/label/{STAGE}"],
    "/runs/{run}/label/{stage}/{step}/{sample_id}": [f"{RUN}/label/{STAGE}/1/a"],
    "/runs/{run}/agreement/{stage}": [f"{RUN}/agreement/{STAGE}"],
    "/runs/{run}/compare": [f"{RUN}/compare"],
    "/runs/{run}/compare-judges": [JUDGES, f"{JUDGES}&reveal=true"],
    "/promotions": ["/promotions"],
}
"""Path of a page's route → addresses of it that are looked at."""
PROBLEM = "/runs/nobody"
SHORT_CHILD = """
    import sys
    print("started", flush=True)
    sys.exit("error: policy.reward.judge: the endpoint does not answer; start it, and resume the run")
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Iterator[Caller]:
    """A service over a run with something for every page."""
    with pytest.MonkeyPatch.context() as patch, FakeKubeflow(version="2.17.0") as kubeflow:
        patch.setenv("RUBRICWORKS_KUBEFLOW", kubeflow.url)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        beside = tmp_path_factory.mktemp("beside")
        (beside / "child.py").write_text(textwrap.dedent(SHORT_CHILD))
        patch.setattr(local_runs, "COMMAND", (sys.executable, str(beside / "child.py")))
        (beside / "policy.yaml").write_text(POLICY)
        more = {"submissions": str(beside / "policy.yaml"), "kubeflow": kubeflow.url}
        folder = written_runs(tmp_path_factory.mktemp("runs"))
        with served(settings(folder, **more)) as url, lock_folder(folder / GOING):
            caller = filled(url)
            tasks = {"prepare": "SUCCEEDED", "warm-up": "FAILED", "train-policy": "PENDING", "outcome": "FAILED"}
            kubeflow.end(kubeflow.only("runs")["run_id"], "FAILED", tasks)
            yield caller


def written_runs(folder: Path) -> Path:
    """Folder of two runs and a registry."""
    write_whole_run(folder)
    going = write_run(folder, GOING)
    (going / STAGE / "done.json").unlink()
    write_progress(going, STAGE, 12, dollars=1.5)
    yesterday = write_run(folder, "yesterday-1")
    finish_tables(yesterday)
    write_rubrics(yesterday, samples=("a", "b", "x"))
    write_run(folder, LONG_NAME)
    asked = write_run(folder, "asked-1")
    (asked / "recipe.yaml").write_text(recipe_path("quickstart").read_text())
    write_table(asked / "rubrics", "rubrics", [{"sample_id": "a", "rubric": json.dumps(rubric(*NAMES))}])
    registry.promote(connect(TrackingConfig(), folder), MODEL, add_version(folder), expected=None)
    figures = {"win_rate": {"low": 0.62, "high": 0.8, "samples": 40}, "benchmark_gain": {"low": -0.2, "samples": 40}}
    findings = (
        Gate(no_alarm=True, forgetting_at_most=0.05).check(figures, alarm=Alarm(state="silent")).tags[FINDINGS_TAG]
    )
    add_version(folder, against=1, **{FINDINGS_TAG: findings})
    return folder


def filled(url: str) -> Caller:
    """Callers of a service, to which they gave something for every page."""
    caller = Caller(url)
    for run in ("asked-1", "today-1"):
        wait_for_rollouts(url, run, **bearer())
    proposal = {"rubric": rubric(*NAMES), "replaces": 1, "reason": "shorter"}
    asked = {"model": MODEL, "version": 2, "reason": "it is better"}
    for path, body in (
        (f"{RUBRICS[1:]}/a/versions", proposal),
        ("promotions", asked),
        ("submissions", {"recipe": recipe_path("quickstart").read_text(), "run": "mine", "place": "here"}),
        ("submissions", {"recipe": RECIPE, "run": "monday", "place": "kubeflow"}),
    ):
        status, answer = caller.post("runner", path, body)
        assert status == 201, answer
    wait_for(lambda: caller.get("submissions/mine")["state"] == "ended")
    return caller


def test_every_page_has_an_address_to_be_looked_at():
    pages = {
        route.path
        for router in ROUTERS
        for route in router.routes
        if "GET" in route.methods and not route.include_in_schema
    }
    assert pages == set(ADDRESSES)


SCREENS = [
    (1280, "light", {}),
    (390, "light", {}),
    # Dark pages differ in their colours alone, at every width.
    (1280, "dark", {"runOnly": ["color-contrast"]}),
]
CUT_OFF = """
    [...document.querySelectorAll('.table')].filter((one) => !one.querySelector('.group, .audit-table'))
        .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.ariaLabel)
"""
"""Tables of which a part is out of sight, but those that compare columns side by side."""

OUT_OF_CHART = """
    [...document.querySelectorAll('.chart .y-label')]
        .filter((one) => one.getBoundingClientRect().left < one.closest('.chart').getBoundingClientRect().left + 8)
        .map((one) => one.textContent)
"""
"""Labels of a chart that stick out at its left."""
CROWDED = """
    [...document.querySelectorAll('.frame.series .marker:not(.picked) + .marker:not(.picked)')].filter((one) => {
        const [here, before] = [one, one.previousElementSibling].map((marker) => marker.getBoundingClientRect());
        return one.className === one.previousElementSibling.className
            && Math.hypot(here.left - before.left, here.top - before.top) < here.width;
    }).map((one) => one.title)
"""
"""Markers that cover the one before on their line."""
SMALL = """
    [...document.querySelectorAll('main button, main select, main input, main textarea, nav a')]
        .filter((one) => one.checkVisibility() && !['checkbox', 'radio', 'hidden'].includes(one.type))
        .filter((one) => one.getBoundingClientRect().height < (one.matches('a') ? 32 : 40))
        .map((one) => one.name || one.textContent)
"""
"""Controls that a finger would miss."""
WITHOUT_HINT = """
    [...document.querySelectorAll('.table, .scroll')].filter((one) => one.scrollWidth > one.clientWidth + 1)
        .filter((one) => getComputedStyle(one).backgroundImage === 'none').map((one) => one.ariaLabel)
"""
"""Tables that do not show that a part of them is out of sight."""


class Inspector:
    """Faults of the pages on a screen, for those who see little or use a phone."""

    def __init__(self, browser: Browser, caller: Caller, width: int, scheme: str, rules: dict[str, Any]) -> None:
        self.page = log_in(browser, caller, "admin-eve", viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.rules, self.name, self.found, self.axe = rules, f"{width}-{scheme}", [], Axe()
        self.page.on("pageerror", lambda error: self.found.append(str(error)))

    def look(self, name: str) -> None:
        """Examine the page that is shown."""
        page = self.page
        if shots := os.environ.get("RUBRICWORKS_SCREENSHOTS"):
            place = Path(shots) / f"{name.strip('/').replace('/', '_').replace('?', '_') or 'root'}-{self.name}.png"
            page.screenshot(path=place, full_page=True)
        if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            self.found.append(f"{name}: the window scrolls sideways")
        self.found += [f"{name}: columns of {item} are out of sight" for item in page.evaluate(CUT_OFF)]
        self.found += [f"{name}: label {item} sticks out of its chart" for item in page.evaluate(OUT_OF_CHART)]
        self.found += [f"{name}: the marker of {item} covers the one before" for item in page.evaluate(CROWDED)]
        self.found += [f"{name}: {item} has no hint of its hidden columns" for item in page.evaluate(WITHOUT_HINT)]
        if page.viewport_size["width"] < 700:
            self.found += [f"{name}: {item} is too small for a finger" for item in page.evaluate(SMALL)]
        self.found += [
            f"{name}: {violation['id']} at {violation['nodes'][0]['target']}"
            for violation in self.axe.run(page, options=self.rules).response["violations"]
            if violation["impact"] in ("serious", "critical")
        ]


@pytest.mark.parametrize(("width", "scheme", "rules"), SCREENS)
def test_every_page_fits_its_screen_and_can_be_read_by_everybody(browser, pages, width, scheme, rules):
    inspector = Inspector(browser, pages, width, scheme, rules)
    for path, status in [*((path, 200) for paths in ADDRESSES.values() for path in paths), (PROBLEM, 404)]:
        answer = inspector.page.goto(pages.pages + path)
        wanted = 422 if "bogus" in path else status
        inspector.found += [f"{path}: status {answer.status}"] if answer.status != wanted else []
        inspector.look(path)
    inspector.page.context.close()
    assert inspector.found == []


@pytest.mark.parametrize(("width", "scheme", "rules"), SCREENS)
def test_a_form_with_mistakes_fits_its_screen_and_can_be_read_by_everybody(browser, pages, width, scheme, rules):
    inspector = Inspector(browser, pages, width, scheme, rules)
    page = inspector.page
    page.goto(f"{pages.pages}/new-run")
    page.get_by_label("Changes, one a line").fill("policy.algorithm.rollouts.group_size=1\npolicy.no_such_field=1")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text("group_size")
    inspector.look("new-run-mistakes")
    page.goto(f"{pages.pages}{RUBRICS}/a/edit")
    page.evaluate("document.querySelectorAll('form').forEach((form) => (form.noValidate = true))")
    page.locator("input[name='0-weight']").fill("heavy")
    page.get_by_role("button", name="Propose").click()
    expect(page.locator("[aria-invalid=true]").first).to_be_visible()
    inspector.look("rubric-mistakes")
    page.get_by_role("link", name="criterion 1, weight").click()
    expect(page.locator("input[name='0-weight']")).to_be_in_viewport()
    page.goto(f"{pages.pages}/login")
    page.get_by_label("Token").fill("rw_of-nobody")
    page.get_by_role("main").get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    inspector.look("login-mistake")
    page.context.close()
    assert inspector.found == []


def test_a_mistake_stands_beside_its_line_until_that_is_changed_and_beside_its_field(browser, pages):
    page = log_in(browser, pages, "runner-otto", viewport={"width": 1280, "height": 800})
    page.goto(f"{pages.pages}/new-run")
    recipe = page.get_by_label("Recipe")
    wrong = recipe.input_value().replace("group_size: 8", "group_size: 1").replace("seed: 1", "sede: 1")
    line = wrong[: wrong.index("group_size")].count("\n") + 1
    recipe.fill(wrong)
    page.get_by_role("button", name="Start").click()
    notes = page.locator(".note")
    expect(notes).to_have_count(2)
    expect(notes.filter(has_text="a group needs at least 2")).not_to_be_in_viewport()
    page.get_by_role("link", name=f"line {line}").click()
    note = notes.filter(has_text="a group needs at least 2")
    expect(note).to_be_in_viewport()

    def number_beside():
        top = note.bounding_box()["y"]
        items = page.locator(".margin li").evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().top)")
        return min(range(len(items)), key=lambda at: abs(items[at] - top)) + 1

    assert number_beside() == line
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.locator(".margin li.wrong").last).to_have_text(str(line + 2))
    assert number_beside() == line + 2
    assert page.locator(".margin li").count() == wrong.count("\n") + 3 == int(recipe.get_attribute("rows"))
    page.keyboard.press("End")
    page.keyboard.type("6")
    expect(notes).to_have_count(1)
    for label, text, told in (
        ("Arm", "nobody", "it has none"),
        ("Name", "a b", "a run's name"),
        ("Changes", "x=1", "no such field"),
    ):
        page.goto(f"{pages.pages}/new-run")
        field = page.get_by_label(label)
        field.fill(text)
        page.get_by_role("button", name="Start").click()
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_have_accessible_description(re.compile(re.escape(told)))
    page.context.close()


def test_two_judges_are_compared_by_keys_and_named_at_a_wish(browser, pages):
    page = log_in(browser, pages, "runner-otto")
    page.goto(pages.pages + JUDGES)
    form = page.locator("form.label-form")
    expect(form).to_contain_text("because")
    expect(form).not_to_contain_text("judge in")
    expect(page.get_by_text("Result so far")).to_have_count(0)
    shown = form.locator("input[name=response]").get_attribute("value")
    page.get_by_label("First judge").press("s")  # a letter of a field is no key
    page.locator("h1").click()
    for keys, item, choice in (
        ("jk", 0, None),  # the first stays the current one
        (["Control+b"], 0, None),
        ("a", 0, "A"),
        ("b", 0, "B"),
        ("n", 0, "neither"),
        ("ka", 0, "A"),
        ("jn", 1, "neither"),
        ("jb", 2, "B"),
        ("jn", 3, "neither"),
        ("je", 3, "both"),  # the last, the whole scorecard, stays the current one
        ("kke", 1, "both"),
    ):
        for key in keys:
            page.keyboard.press(key)
        chosen = form.locator("fieldset").nth(item).locator("label:has(input:checked)")
        expect(chosen).to_have_text([choice] if choice else [])
        if choice:
            expect(chosen.locator("input")).to_be_focused()
    page.keyboard.press("s")
    expect(form.locator(f"input[name=response]:not([value='{shown}'])")).to_have_count(1)
    mine = [item for item in pages.get(f"{RUN[1:]}/judge-preferences")["items"] if item["rater"] == "runner-otto"]
    choices = {item["criterion"]: item["choice"] for item in mine}
    assert choices.keys() == {*NAMES, ""}
    assert (choices[NAMES[0]] in ("first", "second"), choices[NAMES[1]], choices[""]) == (True, "both", "both")
    page.get_by_role("button", name="Reveal it now").click()
    expect(page.get_by_role("region", name="Result so far")).to_contain_text("criteria")
    page.context.close()


def test_files_of_labels_and_preferences_come_in_on_their_pages(browser, pages):
    page = log_in(browser, pages, "runner-paula")
    for path, button, good, wrong in (
        (
            f"{RUN}/compare",
            "Add preferences",
            "sample_id,first,second,choice\na,base,policy,second\n",
            "sample_id,first,second,choice\na,base,nobody,second\n",
        ),
        (
            f"{RUN}/agreement/{STAGE}",
            "Add labels",
            f"sample_id,criterion,label,response\na,{NAMES[0]},yes,a star\n",
            f"sample_id,criterion,label,response\na,{NAMES[0]},maybe,a star\n",
        ),
    ):
        page.goto(pages.pages + path)
        form = page.locator("form", has=page.get_by_role("button", name=button))
        for text, told in ((wrong, "line 2"), (good, "1 rows are stored")):
            file = {"name": "rows.csv", "mimeType": "text/csv", "buffer": text.encode()}
            form.locator("input[type=file]").set_input_files(file)
            form.get_by_role("button", name=button).click()
            expect(form.get_by_role("status")).to_contain_text(told)
    assert [item["rater"] for item in pages.get(f"{RUN[1:]}/preferences")["items"]] == ["runner-paula"]
    page.context.close()


def test_a_sample_without_image_leaves_no_frame_in_a_list(browser, pages):
    page = log_in(browser, pages, "viewer-carl")
    for path, images in ((f"{RUN}/rollouts/{STAGE}", 2), (RUBRICS, 3)):
        page.goto(pages.pages + path)
        expect(page.locator("img.thumb")).to_have_count(images)
        expect(page.locator("img.thumb:visible")).to_have_count(1)
    page.context.close()


def test_criteria_stay_in_sight_beside_responses_that_are_moved_sideways(browser, pages):
    page = log_in(browser, pages, "viewer-carl", viewport={"width": 360, "height": 800})
    page.goto(f"{pages.pages}{RUN}/rollouts/{STAGE}/1/a")
    criterion = page.get_by_role("rowheader", name=NAMES[0])
    before = criterion.bounding_box()
    moved = page.locator(".table").evaluate("(table) => { table.scrollLeft = 9999; return table.scrollLeft; }")
    assert moved > 20
    assert criterion.bounding_box()["x"] == before["x"]
    expect(page.get_by_text("An empty response.")).to_be_visible()
    page.context.close()


def test_a_log_is_read_from_its_end(browser, pages):
    page = log_in(browser, pages, "viewer-carl")
    page.goto(f"{pages.pages}{RUN}/log/{STAGE}")
    log = page.locator("pre.log")
    expect(log).to_contain_text("line 300")
    assert log.evaluate("(one) => [one.scrollTop > 0, one.scrollTop + one.clientHeight >= one.scrollHeight - 1]") == [
        True,
        True,
    ]
    page.context.close()


def test_a_rubric_of_a_sample_without_image_has_the_width_of_the_page(browser, pages):
    page = log_in(browser, pages, "viewer-carl", viewport={"width": 1280, "height": 800})
    for sample, has_image in (("a", True), ("b", False)):
        page.goto(f"{pages.pages}{RUBRICS}/{sample}")
        expect(page.locator("img.sample")).to_be_visible(visible=has_image)
        assert (page.locator("ol.rubric").bounding_box()["width"] > 1100) == (not has_image)
    page.context.close()


def test_undeserved_rewards_are_filtered_by_failure_mode(browser, pages):
    page = log_in(browser, pages, "viewer-carl")
    page.goto(f"{pages.pages}{RUN}/hacking")
    modes, examples = page.get_by_label("Failure mode"), page.locator("article.case")
    for mode, count in (("all", 3), ("Irrelevant", 1), ("all", 3)):
        modes.select_option(label=mode)
        page.locator("form", has=modes).get_by_role("button", name="Show").click()
        expect(examples).to_have_count(count)
        expect(modes.locator("option:checked")).to_have_text(mode)
    page.context.close()


def test_times_are_the_readers_own(browser, pages):
    page = log_in(browser, pages, "viewer-carl", timezone_id="Asia/Tokyo")
    page.goto(f"{pages.pages}/changes")
    logged = pages.get("changes?limit=1")["items"][0]["at"]
    local = datetime.fromisoformat(logged).astimezone(timezone(timedelta(hours=9)))
    expect(page.locator("time").first).to_have_text(f"{local:%Y-%m-%d %H:%M:%S}")
    expect(page.locator("time").first).to_have_attribute("title", re.compile("GMT\\+9.*Z$"))
    expect(page.get_by_text("Times: Asia/Tokyo")).to_be_visible()
    page.goto(f"{pages.pages}/runs")
    expect(page.locator("tbody time").first).to_have_text(re.compile("^(just now|[0-9]+ minutes? ago)$"))
    page.clock.install(time=datetime.now(UTC) + timedelta(days=3, hours=1))
    page.reload()
    expect(page.locator("tbody time").first).to_have_text("3 days ago")
    page.context.close()


def test_the_focus_follows_the_keys_that_move_and_can_be_seen(browser, pages):
    page = log_in(browser, pages, "runner-paula")
    page.goto(f"{pages.pages}{RUN}/rollouts/{STAGE}")
    for key, sample in (("j", "a"), ("j", "b"), ("k", "a")):
        page.keyboard.press(key)
        expect(page.locator("tr.current a")).to_be_focused()
        expect(page.locator("tr.current a")).to_have_text(sample)
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sample a")
    page.goto(f"{pages.pages}{RUN}/label/{STAGE}/1/a")
    for key in ("j", "y", "j", "n"):
        page.keyboard.press(key)
    expect(page.locator("fieldset.current input").last).to_be_focused()
    assert page.locator("input:checked").count() == 2
    page.goto(f"{pages.pages}/runs")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.context.close()
