"""Submitted runs over HTTP: mistakes by field, one run at a time, stop, a service that was started again."""

import contextlib
import http.client
import itertools
import json
import sys
import textwrap
from urllib.parse import urlencode, urlsplit

import pytest
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer, exchange, served
from test_runs_and_rollouts import wait_for

from rubricworks.platform_api.routers import runs as runs_router
from rubricworks.platform_api.services.submission import local_runs
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.recipe.files import recipe_path
from rubricworks.runs.folder_lock import lock_folder

QUICKSTART = recipe_path("quickstart").read_text()
CHILD = """
    import os, signal, sys, time
    name, runs = sys.argv[sys.argv.index("--run") + 1], sys.argv[sys.argv.index("--runs") + 1]
    recipe = open(sys.argv[1]).read()
    api, token = os.environ["RUBRICWORKS_API"], os.environ["RUBRICWORKS_API_TOKEN"]
    print("run", name, flush=True)
    if name.startswith("bad"):
        sys.exit("error: disk: 0.0 GiB free")
    def stop(*_):
        print("stopped", flush=True)
        sys.exit(130)
    signal.signal(signal.SIGINT, stop)
    os.makedirs(f"{runs}/{name}/logs")
    open(f"{runs}/{name}/recipe.yaml", "w").write(recipe)
    open(f"{runs}/{name}/installation", "w").write(f"{api} {token}\\n")
    while not os.path.exists(f"{runs}/{name}/end"):
        time.sleep(0.01)
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A child that takes the arguments of `rubricworks run`, and ends when a file tells it to."""
    script = tmp_path / "child.py"
    script.write_text(textwrap.dedent(CHILD))
    monkeypatch.setattr(local_runs, "COMMAND", (sys.executable, str(script)))
    monkeypatch.setenv("RUBRICWORKS_API_TOKEN", TOKEN)
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture(scope="module")
def quiet_url(tmp_path_factory):
    """A service on which nothing is ever started."""
    with served(settings(tmp_path_factory.mktemp("runs"))) as url:
        yield url


def settings(runs, **more):
    return ApiSettings(storage=str(runs), token=SecretStr(TOKEN), index_seconds=0.05, local_runs=True, **more)


def submit(url, run, recipe=QUICKSTART, **more):
    body = {"recipe": recipe, "run": run, **more}
    return ask(
        f"{url}/api/v1/submissions", method="POST", body=body, **{"Idempotency-Key": f"key-of-{run}"}, **bearer()
    )


def state(url, run):
    return ask(f"{url}/api/v1/submissions/{run}", **bearer())[1]


def stop(url, run, key="stop-1234"):
    path = f"{url}/api/v1/runs/{run}/stop"
    return ask(path, method="POST", body={}, **{"Idempotency-Key": key}, **bearer())


def test_one_run_at_a_time_is_started_followed_and_stopped(stand_in):
    with served(settings(stand_in)) as url:
        status, first = submit(url, "first")
        assert (status, first["place"], first["state"], first["submitted_by"]) == (201, "here", "going", "environment")
        status, body = submit(url, "second")
        assert (status, "first is going on this machine" in body["detail"]) == (409, True)
        assert ask(f"{url}/api/v1/submissions/second", **bearer())[0] == 404
        wait_for(lambda: "run first" in exchange(f"{url}/submissions/first", **bearer())[2].decode())
        assert stop(url, "first")[1] == {"run": "first", "place": "here"}
        wait_for(lambda: state(url, "first")["state"] == "ended")
        assert state(url, "first")["message"] == "stopped"
        assert b'class="state">ended' in exchange(f"{url}/submissions/first", **bearer())[2], "and not failed"
        status, body = stop(url, "first", key="stop-again")
        assert (status, "first has ended already" in body["detail"]) == (409, True)
        with lock_folder(stand_in / "first"):
            assert "goes on in a terminal" in stop(url, "first", key="stop-resumed")[1]["detail"]
        status, body = stop(url, "fisrt", key="stop-nothing")
        assert (status, "there is no run 'fisrt'" in body["detail"]) == (404, True)
        assert submit(url, "first")[1]["state"] == "going", "the same request again is not made again"
        assert ask(f"{url}/api/v1/submissions", **bearer())[1]["items"][0]["run"] == "first"
        log = [(item["action"], item["subject"]) for item in ask(f"{url}/api/v1/changes", **bearer())[1]["items"]]
        assert [item for item in log if item[0].startswith("run.")] == [("run.stop", "first"), ("run.submit", "first")]


def test_a_submission_tells_the_changes_that_its_recipe_does_not_have(stand_in):
    with served(settings(stand_in)) as url:
        changes = ["world.scenes=2400", "description=<i>small</i>"]
        # The last one counts, so that the secret is in no recipe that would be refused for it.
        secret = [
            "policy.reward.judge.url=https://me:hunter2@host/v1",
            "policy.reward.judge.url=${RUBRICWORKS_WORLD_URL}",
        ]
        status, body = submit(url, "first", overrides=[*changes, *secret])
        assert (status, body["overrides"][:2], body["overrides"][3:], body["arm"]) == (201, changes, secret[1:], None)
        assert "hunter2" not in json.dumps(body)
        page = exchange(f"{url}/submissions/first", **bearer())[2].decode()
        stop(url, "first")
    assert "hunter2" not in page
    assert "<code>--set world.scenes=2400</code>" in page
    assert "<code>--set description=&lt;i&gt;small&lt;/i&gt;</code>" in page


@pytest.mark.slow
def test_a_run_calls_its_service_as_a_runner_until_it_ends(stand_in):
    with served(settings(stand_in)) as url:
        submit(url, "first")
        wait_for(lambda: (stand_in / "first" / "installation").exists())
        wait_for(lambda: (stand_in / "first" / "installation").read_text().endswith("\n"))
        api, token = (stand_in / "first" / "installation").read_text().split()
        status, caller = ask(f"{api}/api/v1/caller", **bearer(token))
        assert (api, status, caller["scope"]) == (url, 200, "runner")
        assert (caller["name"].startswith("run:first:"), token != TOKEN) == (True, True)
        (stand_in / "first" / "end").touch()
        wait_for(lambda: state(url, "first")["state"] == "ended")
        assert ask(f"{api}/api/v1/caller", **bearer(token))[0] == 401
        assert submit(url, "bad")[0] == 201
        assert submit(url, "bad")[0] == 201, "the same request"
        wait_for(lambda: state(url, "bad")["state"] == "ended")
        tokens = ask(f"{url}/api/v1/tokens", **bearer())[1]["items"]
        assert len(tokens) == 2
        assert all(token["revoked_at"] for token in tokens)


def test_a_run_that_cannot_start_leaves_no_token(stand_in):
    with served(settings(stand_in)) as url:
        submit(url, "first")
        assert submit(url, "second")[0] == 409
        tokens = ask(f"{url}/api/v1/tokens", **bearer())[1]["items"]
        revoked = {token["name"].split(":")[1]: token["revoked_at"] for token in tokens}
        assert (revoked["first"] is None, revoked["second"] is None) == (True, False)
        stop(url, "first")
        wait_for(lambda: state(url, "first")["state"] == "ended")


def test_the_reason_of_a_run_that_failed_is_told_and_the_next_one_may_begin(stand_in):
    with served(settings(stand_in)) as url:
        assert submit(url, "bad")[0] == 201
        wait_for(lambda: state(url, "bad")["message"] == "error: disk: 0.0 GiB free")
        assert b'class="state failed">failed<' in exchange(f"{url}/submissions/bad", **bearer())[2]
        assert submit(url, "good")[0] == 201
        (stand_in / "good" / "end").parent.mkdir(exist_ok=True)
        (stand_in / "good" / "end").touch()


@pytest.mark.slow
def test_a_run_outlives_its_service_which_knows_it_again(stand_in):
    with served(settings(stand_in)) as url:
        submit(url, "long")
        wait_for(lambda: (stand_in / "long" / "recipe.yaml").exists())
    with served(settings(stand_in)) as url:
        assert submit(url, "other")[0] == 409
        assert stop(url, "long")[0] == 200
        wait_for(lambda: state(url, "long")["state"] == "ended")
        assert submit(url, "bad-other")[0] == 201


def test_a_submitted_run_is_listed_at_once_and_stays_without_a_first_file(stand_in):
    with served(settings(stand_in)) as url:
        assert submit(url, "bad")[0] == 201
        listed = ask(f"{url}/api/v1/runs", **bearer())[1]["items"]
        assert [(run["name"], run["owner"], run["recipe"]) for run in listed] == [("bad", "environment", "quickstart")]
        assert listed[0]["state"] in ("starting", "failed")
        wait_for(lambda: state(url, "bad")["state"] == "ended")
        for name in ("other-1", "other-2"):  # the index forgets what has no folder, once the list of runs changes
            (stand_in / name).mkdir()
            (stand_in / name / "recipe.yaml").write_text("name: x\n")
            wait_for(lambda name=name: ask(f"{url}/api/v1/runs/{name}", **bearer())[0] == 200)
        status, run = ask(f"{url}/api/v1/runs/bad", **bearer())
        assert (status, run["state"], run["message"]) == (200, "failed", "error: disk: 0.0 GiB free")
        for tab in ("overview", "curves", "costs", "recipe", "artifacts"):
            assert exchange(f"{url}/runs/bad?tab={tab}", **bearer())[0] == 200
        assert submit(url, "bad")[0] == 201
        assert ask(f"{url}/api/v1/runs/nobody", **bearer())[0] == 404


def test_a_run_that_cannot_start_is_not_listed(stand_in):
    with served(settings(stand_in)) as url:
        submit(url, "first")
        assert submit(url, "second")[0] == 409
        assert ask(f"{url}/api/v1/runs/second", **bearer())[0] == 404
        stop(url, "first")
        wait_for(lambda: state(url, "first")["state"] == "ended")


def test_a_stopped_run_is_resumed_and_cloned_with_its_changes(stand_in):
    def resume(run, key):
        headers = bearer() | {"Idempotency-Key": key}
        return ask(f"{url}/api/v1/runs/{run}/resume", method="POST", body={}, **headers)

    with served(settings(stand_in)) as url:
        submit(url, "first", overrides=["world.scenes=2400"])
        wait_for(lambda: (stand_in / "first" / "installation").exists())
        wait_for(lambda: ask(f"{url}/api/v1/runs/first", **bearer())[1]["bytes"] > 0)
        assert "it is going" in resume("first", "resume-going")[1]["detail"]
        stop(url, "first")
        wait_for(lambda: state(url, "first")["state"] == "ended")
        wait_for(lambda: b'id="resume"' in exchange(f"{url}/runs/first", **bearer())[2])
        assert resume("first", "resume-first") == (200, {"run": "first"})
        assert ask(f"{url}/api/v1/changes?limit=1", **bearer())[1]["items"][0]["action"] == "run.resume"
        form = exchange(f"{url}/new-run?clone=first", **bearer())[2].decode()
        assert "world.scenes=2400</textarea>" in form
        assert "name: quickstart" in form
        (stand_in / "mine").mkdir()
        (stand_in / "mine" / "recipe.yaml").write_text("name: mine\n")
        wait_for(lambda: ask(f"{url}/api/v1/runs/mine", **bearer())[0] == 200)
        assert "rubricworks run --resume mine" in resume("mine", "resume-mine")[1]["detail"]
        assert "name: mine" in exchange(f"{url}/new-run?clone=mine", **bearer())[2].decode()


def test_mistakes_are_told_by_field_and_line(stand_in):
    text = QUICKSTART.replace("group_size: 8", "group_size: 1").replace("held_out: 256", "heldout: 256")
    with served(settings(stand_in)) as url:
        status, body = submit(url, "x", text)
        assert status == 422
        lines = {field["field"]: field["line"] for field in body["fields"]}
        assert lines == {
            "data.heldout": text[: text.index("heldout")].count("\n") + 1,
            "policy.algorithm.rollouts.group_size": text[: text.index("group_size")].count("\n") + 1,
        }
        assert "did you mean held_out?" in str(body["fields"])
        form = f"recipe={text}&run=x".replace("\n", "%0A").replace("&judge", "%26judge").replace("+", "%2B").encode()
        head = {"Content-Type": "application/x-www-form-urlencoded"}
        status, _, page = exchange(f"{url}/new-run", method="POST", body=form, **head, **bearer())
        assert (status, page.count(b"policy.algorithm.rollouts.group_size is 1;"), b'class="wrong"' in page) == (
            422,
            2,
            True,
        )
        assert not (stand_in / "x").exists()


def test_what_is_not_admitted_is_told_with_its_line_or_its_change(quiet_url):
    address = "${RUBRICWORKS_WORLD_URL}/oracle"
    text = QUICKSTART.replace(address, "http://10.0.0.1:99", 1)
    _, body = submit(quiet_url, "x", text)
    (mistake,) = body["fields"]
    assert mistake["line"] == text[: text.index("http://10.0.0.1:99")].count("\n") + 1
    change = "policy.reward.judge={url: http://10.0.0.1:99, model: m}"
    _, body = submit(quiet_url, "x", overrides=[change])
    assert [(field["field"], field["line"]) for field in body["fields"]] == [("policy.reward.judge.url", None)]
    text = QUICKSTART + "arms:\n  away:\n    policy.reward.judge: {url: 'http://10.0.0.1:99', model: m}\n"
    _, body = submit(quiet_url, "x", text, arm="away")
    lines = {field["field"]: field["line"] for field in body["fields"]}
    assert lines["policy.reward.judge.url"] == text.count("\n")


def test_a_model_without_a_commit_is_refused_by_line_and_no_hub_is_asked(stand_in, tmp_path, serve, monkeypatch):
    hub = serve([])
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    (tmp_path / "admitted.yaml").write_text("places: ['hf://org']\n")
    text = QUICKSTART.replace("student: tiny", "student: org/mine")
    with served(settings(stand_in, submissions=str(tmp_path / "admitted.yaml"))) as url:
        status, body = submit(url, "x", text)
    assert (status, [field["field"] for field in body["fields"]]) == (422, ["warm_up.student"])
    (mistake,) = body["fields"]
    assert mistake["line"] == text[: text.index("student: org/mine")].count("\n") + 1
    assert "org/mine@COMMIT, with the 40 digits" in mistake["problem"]
    assert not hub.heard


def test_a_form_with_mistakes_keeps_what_it_had(quiet_url):
    form = urlencode(
        {"recipe": "a: [", "begin": "retrain", "run": "mine", "overrides": "policy.algorithm.steps=1", "arm": "x"}
    )
    head = {"Content-Type": "application/x-www-form-urlencoded"}
    status, _, page = exchange(f"{quiet_url}/new-run", method="POST", body=form.encode(), **head, **bearer())
    assert status == 422
    for stored in (
        "<option selected>retrain</option>",
        'value="mine"',
        "policy.algorithm.steps=1</textarea>",
        'name="arm" id="arm" value="x"',
    ):
        assert stored in page.decode()


@pytest.mark.parametrize(
    ("recipe", "problem"),
    [
        ("", "at least 1 character"),
        ("[1]", "a recipe is a mapping"),
        ("# nothing\n", "this is empty"),
        ("a: [", "not YAML"),
        ("!!python/object/apply:os.system ['touch /tmp/owned']", "could not determine a constructor"),
        ("a: &a [*a]", "stands inside"),
        ("".join(f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 9) if i else 'lol'}]\n" for i in range(12)), "written out"),
        ("a: " + "[" * 70 + "]" * 70, "inside each other"),
        ("a: " + "9" * 5000, "digits"),
        ("name: x\n" + "#\n" * 25_000, "at most 50000 characters"),
        ("name: x\n" + "a:\n" * 5_000, "more than 5,000 values"),
        (QUICKSTART + "".join(f"a{number}:\n" for number in range(1_000)), "950 more mistakes are not listed"),
        (QUICKSTART + "tracking: {uri: 'https://me:pa55word@host'}\n", "user or password"),
        (QUICKSTART.replace("${RUBRICWORKS_WORLD_URL}/oracle", "http://169.254.169.254"), "not admitted here"),
    ],
)
def test_hostile_recipes_are_refused_before_anything_starts(quiet_url, recipe, problem):
    status, body = submit(quiet_url, "hostile", recipe)
    assert (status, problem in json.dumps(body, ensure_ascii=False)) == (422, True), body
    assert "pa55word" not in str(body)
    assert ask(f"{quiet_url}/api/v1/submissions", **bearer())[1]["items"] == []


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"recipe": QUICKSTART + "#\n" * 25_000}, "characters; write at most 50,000"),
        ({"recipe": QUICKSTART, "overrides": "seed=1\n" * 101}, "there are 101 changes of 606 characters together"),
        ({"recipe": QUICKSTART, "overrides": f"seed={'1' * 50_000}"}, "there are 1 changes of 50,005 characters"),
    ],
)
def test_a_form_is_held_to_the_same_lengths(quiet_url, fields, problem):
    head = {"Content-Type": "application/x-www-form-urlencoded"}
    form = urlencode({"run": "x", **fields}).encode()
    status, _, page = exchange(f"{quiet_url}/new-run", method="POST", body=form, **head, **bearer())
    assert (status, problem in page.decode()) == (422, True)
    assert page.count(b"<li") < 5_200, "each line has its number on the page, and no more than 5,000 have"


def test_a_form_that_is_too_large_is_refused_on_a_page(quiet_url):
    head = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
    form = urlencode({"recipe": "\n" * 1_000_000}).encode()
    status, _, page = exchange(f"{quiet_url}/new-run", method="POST", body=form, **head, **bearer())
    assert (status, b"<h1>Body too large" in page) == (413, True)


def test_first_of_many_unadmitted_places_are_listed_and_the_rest_counted(quiet_url):
    away = "{url: 'http://10.0.0.1:99', model: m}"
    arms = [f"  a{number}: {{policy.reward.judge: {away}, rubric.writer: {away}}}\n" for number in range(30)]
    _, body = submit(quiet_url, "x", f"{QUICKSTART}arms:\n{''.join(arms)}")
    problems = [field["problem"] for field in body["fields"]]
    assert (len(problems), problems[-1]) == (51, "10 more mistakes are not listed; mend these first")


@pytest.mark.parametrize("name", ["..", "../x", "a/b", "a\\b", ".hidden", "a b", "%2e%2e", "file:///x"])
def test_a_name_that_is_no_folder_is_refused(quiet_url, name):
    assert submit(quiet_url, name)[0] == 422


def test_a_service_that_others_reach_runs_nothing_on_its_machine(stand_in):
    with served(settings(stand_in).model_copy(update={"local_runs": False})) as url:
        status, body = submit(url, "x")
        assert (status, "listens beyond loopback" in body["detail"]) == (409, True)
        assert submit(url, "y", place="here")[0] == 409
        assert b"no place to run" in exchange(f"{url}/new-run", **bearer())[2]


def test_a_log_comes_as_events_and_goes_on_where_it_stopped(stand_in):
    run = stand_in / "today"
    (run / "logs").mkdir(parents=True)
    (run / "recipe.yaml").write_text("name: x\n")
    (run / "logs" / "score.log").write_bytes(b"one\nkey sk-0123456789abcdef\nhalf")
    with served(settings(stand_in)) as url:
        wait_for(lambda: ask(f"{url}/api/v1/runs/today", **bearer())[0] == 200)
        place = f"{url}/api/v1/runs/today/stages/score/log/events"
        events = exchange(place, **bearer())[2].decode().split("\n\n")
        assert events[0].splitlines() == ["id: 32", "event: lines", 'data: "one\\nkey ***\\nhalf"']
        assert events[1].startswith("event: end")
        assert b'data: "half"' in exchange(place, **bearer(), **{"Last-Event-ID": "28"})[2]
        assert exchange(place, **bearer(), **{"Last-Event-ID": "32"})[2].decode().startswith("event: end")


@pytest.mark.parametrize("path", ["stages/score/log/events", "events"])
def test_idle_stream_sends_comments_that_keep_proxies_open(stand_in, monkeypatch, path):
    monkeypatch.setattr(runs_router, "_HEARTBEAT_SECONDS", 0.0)
    monkeypatch.setattr(runs_router, "_SECONDS", 0.02)
    with lock_folder(stand_in / "today"), served(settings(stand_in)) as url:
        (stand_in / "today" / "recipe.yaml").write_text("name: x\n")
        wait_for(lambda: ask(f"{url}/api/v1/runs/today", **bearer())[1].get("state") == "going")
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=300)
        with contextlib.closing(connection):
            connection.request("GET", f"/api/v1/runs/today/{path}", headers=bearer())
            answer = connection.getresponse()
            lines = iter(answer.readline, b"")
            assert any(line.startswith(b":") for line in itertools.islice(lines, 8))
            assert answer.headers["x-accel-buffering"] == "no"


@pytest.mark.slow
def test_stop_is_shown_where_it_works_and_elsewhere_the_reason(stand_in):
    with served(settings(stand_in)) as url, lock_folder(stand_in / "mine"):
        (stand_in / "mine" / "recipe.yaml").write_text("name: x\n")
        assert submit(url, "submitted")[0] == 201
        for run in ("mine", "submitted"):
            wait_for(lambda run=run: ask(f"{url}/api/v1/runs/{run}", **bearer())[0] == 200)
        page = f"{url}/runs/mine"
        wait_for(lambda: b"started in a terminal: stop it there, with Ctrl-C" in exchange(page, **bearer())[2])
        assert b'id="stop"' not in exchange(page, **bearer())[2]
        (stand_in / "submitted" / "locked").write_text("")
        with lock_folder(stand_in / "submitted"):
            wait_for(lambda: b'id="stop"' in exchange(f"{url}/runs/submitted", **bearer())[2])
        with served(settings(stand_in).model_copy(update={"local_runs": False})) as beyond:
            status, body = stop(beyond, "submitted", key="stop-beyond")
            assert (status, "listens beyond loopback" in body["detail"]) == (409, True)
            assert state(url, "submitted")["state"] == "going"
        assert stop(url, "submitted")[0] == 200
        wait_for(lambda: state(url, "submitted")["state"] == "ended")
