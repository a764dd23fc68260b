"""Every POST takes a key; sent again, or after a kill between change and answer, it has one effect and one answer."""

import asyncio
import http.client
import re
import sqlite3
from pathlib import Path
from urllib.parse import urlencode

import pytest
from forked import Forked
from pydantic import SecretStr
from repeated_posts import LABEL, LABELS, check_posts_at_once
from served_api import TOKEN, Caller, ask, bearer, exchange, served, wait_for, wait_for_rollouts
from test_submissions import QUICKSTART, stand_in  # noqa: F401
from trained_run import NAMES, STAGE, write_run

from rubricworks.platform_api import app
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.migrate import migrate
from rubricworks.platform_api.db.tables import Change
from rubricworks.platform_api.problems import Conflict
from rubricworks.platform_api.services.access import idempotency
from rubricworks.platform_api.services.access.audit_log import record
from rubricworks.platform_api.services.access.idempotency import Answer, Keyed
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.platform_api.settings import ApiSettings

POSTS = [route for router in app.ROUTERS for route in router.routes if "POST" in route.methods]
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
LABEL_PAGE = f"/runs/today-1/label/{STAGE}/1/a"


def settings(folder, **more):
    return ApiSettings(storage=str(folder), token=SecretStr(TOKEN), index_seconds=0.05, **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder)
    return folder


@pytest.fixture(scope="module")
def caller(folder):
    with served(settings(folder)) as url:
        wait_for_rollouts(url, **bearer())
        yield Caller(url)


def send_form(caller, page, fields, **headers):
    body = urlencode(fields).encode()
    return exchange(caller.pages + page, method="POST", body=body, **FORM, **(headers or bearer()))


def rows(folder, query):
    with sqlite3.connect(folder / "platform.db") as database:
        return database.execute(query).fetchall()


def expire_claims(folder):
    with sqlite3.connect(folder / "platform.db") as database:
        database.execute("UPDATE keyed_answers SET created_at = '2020-01-01 00:00:00.000000' WHERE status IS NULL")


@pytest.mark.parametrize("route", POSTS, ids=lambda route: route.path)
def test_every_post_is_refused_without_a_key_and_with_one_that_is_none(caller, route):
    values = {"run": "today-1", "stage": STAGE, "step": "1", "sample_id": "a", "number": "999", "person": "x@y"}
    path = re.sub(r"\{(\w+)\}", lambda match: values[match[1]], route.path)
    for key in ("", "short", "with a space"):
        headers = {"Idempotency-Key": key} | FORM | bearer()
        status, _, content = exchange(caller.pages + path, method="POST", body=b"", **headers)
        assert (status, b"dempotency" in content) == (422, True)


def test_a_post_that_takes_no_key_keeps_the_application_from_starting():
    from rubricworks.platform_api.routers import probes
    from rubricworks.platform_api.routers.dependencies import Runner

    async def everything(runner: Runner) -> str:
        return "everything"

    before = list(probes.router.routes)
    probes.router.add_api_route("/everything", everything, methods=["POST"])
    try:
        with pytest.raises(RuntimeError, match="takes no idempotency key"):
            app.create_app(ApiSettings())
    finally:
        probes.router.routes[:] = before


def test_every_form_that_posts_draws_a_key_of_its_own():
    folder = Path(app.__file__).with_name("pages")
    forms = [
        form
        for page in folder.glob("*.html")
        for form in re.findall(r'<form(?:"[^"]*"|[^">])*method="post".*?>.{12}', page.read_text())
    ]
    assert len(forms) > 12
    assert [form for form in forms if not form.endswith("{{ once() }}")] == []


def test_a_key_is_new_in_each_page_that_is_drawn(caller):
    pages = [exchange(caller.pages + LABEL_PAGE, **bearer())[2].decode() for _ in range(2)]
    keys = [key for page in pages for key in re.findall(r'name="idempotency_key" value="(\w{32})"', page)]
    assert len(set(keys)) == len(keys) == 2


def test_a_form_sent_twice_labels_once_and_leads_to_the_same_page(caller, folder):
    page = exchange(caller.pages + LABEL_PAGE, **bearer())[2].decode()
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="(\w*)"', page)) | {"criterion-0": "met"}
    before = len(rows(folder, "SELECT * FROM changes WHERE action = 'label.set'"))
    first, second = (send_form(caller, LABEL_PAGE, fields) for _ in range(2))
    assert (first[0], first[1]["location"]) == (303, f"/runs/today-1/label/{STAGE}")
    assert (second[0], second[1]["location"], second[1]["idempotent-replay"]) == (303, first[1]["location"], "true")
    assert len(rows(folder, "SELECT * FROM changes WHERE action = 'label.set'")) == before + 1
    status, _, content = send_form(caller, LABEL_PAGE, fields | {"criterion-0": "not met"})
    assert (status, b"load the page of the form anew" in content) == (422, True)


def test_a_refused_form_is_sent_again_under_its_key(caller):
    fields = {"idempotency_key": "of-a-refused-form", "response": "no such"}
    assert send_form(caller, LABEL_PAGE, fields)[0] == 422
    assert send_form(caller, LABEL_PAGE, fields)[0] == 422


def test_posts_of_one_key_at_once_have_one_effect_and_the_same_answer(caller):
    check_posts_at_once(caller)


def test_repeated_login_is_one_session_and_repeated_logout_the_same_page(caller, folder):
    fields = {"idempotency_key": "a-double-click", "token": caller.secret("viewer-who-clicks"), "next": "/runs"}
    cookies = {send_form(caller, "/login", fields, Accept="text/html")[1]["set-cookie"] for _ in range(2)}
    (cookie,) = (cooky.partition(";")[0] for cooky in cookies)
    assert exchange(f"{caller.url}/caller", Cookie=cookie)[0] == 200
    assert len(rows(folder, "SELECT * FROM sessions")) == 1
    others = [
        send_form(caller, "/login", fields | {"idempotency_key": f"key-{n}-of-another"}, Accept="*/*") for n in "ab"
    ]
    assert len({answer[1]["set-cookie"] for answer in others} - cookies) == 2
    for _ in range(2):
        answer = send_form(caller, "/logout", {"idempotency_key": "another-double-click"}, Cookie=cookie)
        assert (answer[0], answer[1]["location"]) == (303, "/login")
    assert exchange(f"{caller.url}/caller", Cookie=cookie)[0] == 401


def test_a_token_is_created_once_by_its_key_and_its_secret_is_not_stored(caller, folder):
    body = {"name": "once", "scope": "viewer"}
    status, made = caller.post("admin", "tokens", body, key="of-one-token")
    assert status == 201
    status, again = caller.post("admin", "tokens", body, key="of-one-token")
    assert (status, "its answer held a secret" in again["detail"]) == (409, True)
    assert not any(made["secret"].encode() in path.read_bytes() for path in folder.glob("platform.db*"))


SERVICE_KILLED_BEFORE_ITS_ANSWER = """
import os, sys
from pydantic import SecretStr
from rubricworks.platform_api.services.access.idempotency import Keyed
from rubricworks.platform_api.services.submission import local_runs
from rubricworks.platform_api.settings import ApiSettings
from served_api import TOKEN, served

async def die(self, session, answer):
    await session.flush()
    os._exit(9)

Keyed.answer = die
if len(sys.argv) > 2:
    local_runs.COMMAND = (sys.executable, sys.argv[2])
    os.environ["RUBRICWORKS_API_TOKEN"] = TOKEN
settings = ApiSettings(storage=sys.argv[1], token=SecretStr(TOKEN), index_seconds=0.05, local_runs=len(sys.argv) > 2)
with served(settings) as url:
    print(url, flush=True)
    sys.stdin.read()
"""


def post_to_a_service_that_is_killed(folder, path, body, *arguments, ready=lambda url: None):
    service = Forked(SERVICE_KILLED_BEFORE_ITS_ANSWER, folder, *arguments)
    url = service.stdout.readline().strip()
    ready(url)
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        ask(f"{url}/api/v1/{path}", method="POST", body=body, **{"Idempotency-Key": "killed-once"}, **bearer())
    assert service.wait() == 9


def test_change_of_a_killed_service_is_made_once_when_sent_again(tmp_path):
    write_run(tmp_path)
    post_to_a_service_that_is_killed(tmp_path, LABELS, LABEL, ready=lambda url: wait_for_rollouts(url, **bearer()))
    assert rows(tmp_path, "SELECT * FROM labels") == [], "the change is not there without its answer"
    assert rows(tmp_path, "SELECT key, status FROM keyed_answers") == [("killed-once", None)]
    expire_claims(tmp_path)
    with served(settings(tmp_path)) as url:
        key = {"Idempotency-Key": "killed-once"}
        answers = [ask(f"{url}/api/v1/{LABELS}", method="POST", body=LABEL, **key, **bearer()) for _ in range(2)]
    assert (answers[0][0], answers[1]) == (201, answers[0])
    assert rows(tmp_path, "SELECT criterion, credit FROM labels") == [(NAMES[0], 1.0)]
    assert rows(tmp_path, "SELECT count(*) FROM changes WHERE action = 'label.set'") == [(1,)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nightly", None])
def test_a_run_whose_service_is_killed_before_its_answer_is_started_once(stand_in, name):  # noqa: F811
    child = stand_in.parent / "child.py"
    body = {"recipe": QUICKSTART} | ({"run": name} if name else {})
    post_to_a_service_that_is_killed(stand_in, "submissions", body, child)
    ((run, state),) = rows(stand_in, "SELECT run, state FROM submissions")
    assert state == "starting"
    wait_for((stand_in / run / "installation").exists)
    expire_claims(stand_in)
    with served(settings(stand_in, local_runs=True)) as url:
        key = {"Idempotency-Key": "killed-once"}
        answers = [ask(f"{url}/api/v1/submissions", method="POST", body=body, **key, **bearer()) for _ in range(2)]
        assert (answers[0][0], answers[0][1]["run"], answers[0][1]["state"]) == (201, run, "going")
        assert answers[1] == answers[0]
        (stand_in / run / "end").touch()
        wait_for(lambda: ask(f"{url}/api/v1/submissions/{run}", **bearer())[1]["state"] == "ended")
        assert len(ask(f"{url}/api/v1/submissions", **bearer())[1]["items"]) == 1
    assert [path.name for path in (stand_in / ".submitted").iterdir() if path.is_dir()] == [run]
    assert rows(stand_in, "SELECT count(*) FROM changes WHERE action = 'run.submit'") == [(1,)]


def test_run_of_a_killed_service_starts_when_it_is_sent_again(stand_in):  # noqa: F811
    with served(settings(stand_in, local_runs=True)) as url:
        key = {"Idempotency-Key": "killed-once"}
        body = {"recipe": QUICKSTART}
        asked = {"method": "POST", "body": body, **key, **bearer()}
        (stand_in / ".submitted" / "nightly").mkdir(parents=True)
        columns = "run, place, state, recipe, service, submitted_by, submitted_at, message, page, request, overrides"
        name = Keyed(Principal("environment", "admin"), "killed-once", "").name
        values = ("nightly", "here", "ended", "", "of-before", "environment", "2026-01-01", "", "", name, "[]")
        with sqlite3.connect(stand_in / "platform.db") as database:
            database.execute(f"INSERT INTO submissions ({columns}) VALUES ({', '.join('?' * 11)})", values)
        answer = ask(f"{url}/api/v1/submissions", **asked)[1]
        assert (answer["run"], answer["state"]) == ("nightly", "going")
        wait_for((stand_in / "nightly" / "installation").exists)
        (stand_in / "nightly" / "end").touch()


def test_a_claim_does_not_expire_while_its_request_is_answered(tmp_path, monkeypatch):
    monkeypatch.setattr(idempotency, "_RENEWED_EVERY", 0.01)

    async def work():
        database = Database(f"sqlite:///{tmp_path}/platform.db")
        await migrate(database)
        slow = Keyed(Principal("runner", "runner"), "the-same-key", "digest")
        await slow.claim(database)
        async with slow.renewed(database):
            expire_claims(tmp_path)
            expired = "SELECT * FROM keyed_answers WHERE created_at LIKE '2020%'"
            await asyncio.to_thread(wait_for, lambda: not rows(tmp_path, expired))
        await database.close()

    asyncio.run(work())


def test_an_answer_whose_claim_another_attempt_has_taken_over_undoes_its_change(tmp_path):
    async def work():
        database = Database(f"sqlite:///{tmp_path}/platform.db")
        await migrate(database)
        by = Principal("runner", "runner")
        slow, quick = (Keyed(by, "the-same-key", "digest") for _ in range(2))
        assert await slow.claim(database) is None
        expire_claims(tmp_path)
        assert await quick.claim(database) is None
        outcomes = []
        for keyed in (slow, quick):
            try:
                async with database.session() as session:
                    record(session, by, "label.set", "x")
                    await keyed.answer(session, Answer(201, "{}", None))
                outcomes.append("stored")
            except Conflict:
                outcomes.append("refused")
        async with database.session() as session:
            changes = (await session.scalars(Change.__table__.select())).all()
        await database.close()
        return outcomes, len(changes)

    assert asyncio.run(work()) == (["refused", "stored"], 1)
