"""Promotions over HTTP with MLflow's own registry: two persons, one alias, signed messages, rollback, kills."""

import asyncio
import hashlib
import hmac
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner
from pydantic import SecretStr
from served_api import TOKEN, Caller, ask, bearer, exchange, served, wait_for
from trained_run import write_run

from rubricworks.cli import cli
from rubricworks.data.alarm import Alarm
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.tables import Submission
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.platform_api.services.access.tokens import create_run_token, principal_of_secret
from rubricworks.platform_api.services.promotion.consumer import ATTEMPTS, pause_after
from rubricworks.platform_api.services.promotion.mlflow_registry import MlflowRegistry
from rubricworks.platform_api.services.promotion.promotions import Promotions
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.tracking import Gate, TrackingConfig, connect, registry
from rubricworks.tracking.gate import FINDINGS_TAG

pytestmark = pytest.mark.slow
MODEL = "captioner"


@pytest.fixture(autouse=True)
def _no_server(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def add_version(
    folder, *, against=None, standing=registry.WAITING, gate="better by 0.1 [0.05, 0.15]", digest="3f5a", **tags
):
    """Register a version as the promote stage leaves it; return its number."""
    connection = connect(TrackingConfig(), folder)
    client = connection.client
    if MODEL not in registry.model_names(connection):
        client.create_registered_model(MODEL)
    version = int(client.create_model_version(MODEL, source=str(folder)).version)
    tags |= {registry.APPROVAL_TAG: standing, "gate": gate} | ({registry.OPPONENT_TAG: against} if against else {})
    tags |= {registry.DIGEST_TAG: digest} if digest else {}
    registry.tag(connection, registry.get_version(connection, MODEL, version), tags)
    registry.nominate(connection, MODEL, version)
    return version


def aliases(folder):
    return MlflowRegistry("", folder).standing(MODEL)[1:3]


class Consumer(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.messages.append((dict(self.headers), body))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def consumer():
    server = HTTPServer(("127.0.0.1", 0), Consumer)
    server.messages, server.answers = [], []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()


class Service(Caller):
    def request(self, version, who="runner"):
        return self.post(who, "promotions", {"model": MODEL, "version": version, "reason": "please"})


def promote(service, folder, *, against=None):
    """Make a new version the champion; return its number."""
    version = add_version(folder, against=against)
    assert service.post("approver", f"promotions/{service.request(version)[1]['id']}/approve")[0] == 200
    return version


@pytest.fixture
def service(tmp_path, consumer):
    settings = ApiSettings(
        storage=str(tmp_path),
        token=SecretStr(TOKEN),
        index_seconds=0.05,
        webhook_url=f"http://127.0.0.1:{consumer.server_port}/hook",
        webhook_secret=SecretStr("k3y"),
    )
    with served(settings) as url:
        yield Service(url)


def test_from_the_request_to_the_confirmation_and_back(service, consumer, tmp_path):
    first = add_version(tmp_path)
    status, promotion = service.request(first)
    assert (status, promotion["state"], promotion["gate"]) == (201, "requested", "better by 0.1 [0.05, 0.15]")
    assert aliases(tmp_path) == (None, None)
    assert (
        service.post("approver", f"promotions/{promotion['id']}/approve", {"reason": "good"})[1]["state"] == "applied"
    )
    assert aliases(tmp_path) == (first, None)
    second = add_version(tmp_path, against=first)
    number = service.request(second)[1]["id"]
    assert service.post("approver", f"promotions/{number}/approve")[0] == 200
    wait_for(lambda: len(consumer.messages) == 2)
    headers, body = consumer.messages[1]
    message = json.loads(body)
    assert (message["version"], message["before"], message["kind"]) == (second, first, "promotion")
    at, _, signature = headers["Rubricworks-Signature"].removeprefix("t=").partition(",v1=")
    assert signature == hmac.new(b"k3y", f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    for _ in range(2):
        confirmed = service.post("runner", message["confirm"].removeprefix("/api/v1/"))
        assert (confirmed[0], confirmed[1]["state"], confirmed[1]["confirmed_by"]) == (200, "confirmed", "runner")
    back = service.post("approver", "rollbacks", {"model": MODEL, "champion": second, "reason": "it stutters"})
    assert (back[0], back[1]["version"], back[1]["state"]) == (201, first, "applied")
    assert aliases(tmp_path) == (first, second)
    log = [(item["action"], item["who"]) for item in reversed(service.get("changes?limit=200")["items"])]
    assert [line for line in log if not line[0].startswith("token")] == [
        *(("promotion.request", "runner"), ("promotion.apply", "approver")) * 2,
        *(("promotion.confirm", "runner"), ("rollback.request", "approver"), ("rollback.apply", "approver")),
    ]


def test_who_requested_does_not_approve_whatever_rights_they_have(service, tmp_path):
    number = service.request(add_version(tmp_path), who="boss")[1]["id"]
    assert service.post("boss", f"promotions/{number}/approve")[0] == 403
    assert service.post("runner", f"promotions/{number}/approve")[0] == 403
    assert aliases(tmp_path) == (None, None)
    assert service.post("approver", f"promotions/{number}/reject", {"reason": "no"})[1]["decision"] == "no"
    assert service.post("approver", f"promotions/{number}/approve")[0] == 409


def run_token(folder, by, run):
    """Name and secret of the token that a run gets which somebody submits or resumes."""

    async def create():
        database = Database(f"sqlite+aiosqlite:///{folder}/platform.db")
        async with database.session() as session:
            secret = await create_run_token(session, Principal(by, "admin"), run)
            principal = await principal_of_secret(session, secret)
        await database.close()
        return principal.name, secret

    return asyncio.run(create())


def test_who_submitted_the_run_that_requested_does_not_approve(service, tmp_path):
    service.secrets["run"] = run_token(tmp_path, "boss", "nightly")[1]
    number = service.request(add_version(tmp_path), who="run")[1]["id"]
    headers = {who: bearer(service.secret(who)) for who in ("boss", "approver")}
    shown = {who: exchange(f"{service.pages}/promotions", **head)[2].decode() for who, head in headers.items()}
    offers = {who: f'action="/promotions/{number}/approve"' in page for who, page in shown.items()}
    assert offers == {"boss": False, "approver": True}
    assert "another person decides" in shown["boss"]
    status, refusal = service.post("boss", f"promotions/{number}/approve")
    assert (status, "resumed its run" in refusal["detail"]) == (403, True)
    assert service.post("approver", f"promotions/{number}/approve")[1]["state"] == "applied"


def test_submitter_of_a_run_does_not_approve_it(service, tmp_path):
    first, _ = run_token(tmp_path, "boss", "nightly")
    run_token(tmp_path, "other", "nightly:2")
    run_token(tmp_path, first, "nightly-2")
    service.secrets["run"] = run_token(tmp_path, "chief", "nightly-2")[1]
    number = service.request(add_version(tmp_path), who="run")[1]["id"]
    assert [service.post(who, f"promotions/{number}/approve")[0] for who in ("boss", "chief")] == [403, 403]
    assert service.post("other", f"promotions/{number}/approve")[1]["state"] == "applied"


def test_who_submitted_a_run_on_kubeflow_does_not_approve_though_its_token_is_shared(service, tmp_path):
    async def submit():
        database = Database(f"sqlite+aiosqlite:///{tmp_path}/platform.db")
        async with database.session() as session:
            fields = {"recipe": "", "service": "s", "submitted_by": "boss", "request": "r"}
            session.add(Submission(run="on-kfp", place="kubeflow", state="going", **fields))
        await database.close()

    asyncio.run(submit())
    number = service.request(add_version(tmp_path, run="on-kfp"), who="runner-of-all")[1]["id"]
    assert service.post("boss", f"promotions/{number}/approve")[0] == 403
    assert service.post("approver", f"promotions/{number}/approve")[1]["state"] == "applied"


@pytest.mark.parametrize("standing", ["rejected", "refused"])
def test_what_did_not_pass_its_gate_is_not_requested(service, tmp_path, standing):
    version = add_version(tmp_path, standing=standing, gate="worse by 0.1")
    status, body = service.request(version)
    assert (status, "does not wait for a decision: worse by 0.1" in body["detail"]) == (422, True)
    assert service.request(99)[0] == 404


def test_a_request_for_the_champion_says_that_it_is_the_champion_already(service, tmp_path):
    version = add_version(tmp_path)
    number = service.request(version)[1]["id"]
    assert service.post("approver", f"promotions/{number}/approve")[0] == 200
    status, body = service.request(version)
    assert (status, body["detail"]) == (409, f"{MODEL} version {version} is the champion already")


@pytest.mark.parametrize(("model", "version"), [(MODEL, 9), ("nobody", 1)])
def test_a_version_that_is_not_there_is_told_without_the_place_of_the_registry(service, tmp_path, model, version):
    add_version(tmp_path)
    status, body = service.post("runner", "promotions", {"model": model, "version": version, "reason": "x"})
    assert (status, body["detail"]) == (404, f"the registry has no {model} version {version}")


def test_a_version_without_a_digest_is_not_promoted(service, tmp_path, monkeypatch):
    version = add_version(tmp_path, digest="")
    status, body = service.request(version)
    assert (status, "it has no digest of its files" in body["detail"]) == (422, True)
    result = CliRunner().invoke(cli, ["promote", MODEL, "--runs", str(tmp_path)])
    assert "it has no digest of its files" in str(result.exception)
    assert aliases(tmp_path) == (None, None)


def test_who_requested_approves_where_the_installation_waives_the_second_person(tmp_path):
    settings = ApiSettings(storage=str(tmp_path), token=SecretStr(TOKEN), self_approval=("other", f"{MODEL[:4]}*"))
    with served(settings) as url:
        service = Service(url)
        first = add_version(tmp_path)
        number = service.request(first, who="boss")[1]["id"]
        page = exchange(f"{url}/promotions", **bearer(service.secrets["boss"]))[2].decode()
        assert f'action="/promotions/{number}/approve"' in page
        assert service.post("boss", f"promotions/{number}/approve")[0] == 200
        number = service.request(add_version(tmp_path, against=first))[1]["id"]
        assert service.post("runner", f"promotions/{number}/approve")[0] == 403, "it takes an approver"
        assert service.post("boss", f"promotions/{number}/approve")[0] == 200
        service.secrets["run"] = run_token(tmp_path, "boss", "nightly")[1]
        number = service.request(add_version(tmp_path, against=2), who="run")[1]["id"]
        assert service.post("boss", f"promotions/{number}/approve")[0] == 200
        log = [item["details"] for item in service.get("changes")["items"] if item["action"] == "promotion.apply"]
        assert [item.get("self_approved") for item in log] == [True, None, True]


@pytest.mark.parametrize(("waived", "status"), [("", 403), (f"other, {MODEL[:4]}*", 200)])
def test_the_environment_says_whose_requests_the_requester_may_approve(tmp_path, waived, status):
    environment = {**os.environ, "RUBRICWORKS_API_TOKEN": TOKEN, "RUBRICWORKS_SELF_APPROVAL": waived}
    command = [sys.executable, "-m", "rubricworks.cli", "server", "--runs", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as popen:
        try:
            service = Service(popen.stdout.readline().decode().strip())
            version = add_version(tmp_path)
            number = service.request(version, who="boss")[1]["id"]
            assert service.post("boss", f"promotions/{number}/approve")[0] == status
            assert aliases(tmp_path)[0] == (version if status == 200 else None)
        finally:
            popen.terminate()


def test_a_champion_that_moved_meanwhile_is_not_replaced(service, tmp_path):
    first, other = add_version(tmp_path), add_version(tmp_path)
    number = service.request(other)[1]["id"]
    registry.promote(connect(TrackingConfig(), tmp_path), MODEL, first, expected=None)
    status, body = service.post("approver", f"promotions/{number}/approve")
    assert (status, f"version {first} is the champion now" in body["detail"]) == (409, True)
    assert aliases(tmp_path) == (first, None)
    assert service.get(f"promotions/{number}")["state"] == "failed"
    assert service.request(other)[0] == 422  # it passed against no champion


def test_of_many_decisions_at_once_one_wins_and_the_others_are_told(service, tmp_path):
    first = add_version(tmp_path)
    service.post("approver", f"promotions/{service.request(first)[1]['id']}/approve")
    for who in ("approver-a", "approver-b"):
        service.post(who, "promotions/999/reject")  # its token
    for _ in range(5):
        champion = aliases(tmp_path)[0]
        number = service.request(add_version(tmp_path, against=champion))[1]["id"]
        work = [
            ("approver-a", f"promotions/{number}/approve", None),
            ("approver-b", f"promotions/{number}/approve", None),
            ("approver-b", f"promotions/{number}/reject", {"reason": "no"}),
        ]
        with ThreadPoolExecutor(3) as threads:
            answers = list(threads.map(lambda item: service.post(*item), work))
        assert sorted(status for status, _ in answers) == [200, 409, 409]
        state = service.get(f"promotions/{number}")
        assert (state["state"] == "applied") == (aliases(tmp_path)[0] == state["version"])
        done = [
            item
            for item in service.get("changes?limit=200")["items"]
            if item["subject"].endswith(f"/{state['version']}")
        ]
        assert len(done) == 2, "the request and one decision"


def test_of_many_requests_at_once_for_one_model_one_stands(service, tmp_path):
    versions = [add_version(tmp_path) for _ in range(4)]
    service.secret("runner")
    with ThreadPoolExecutor(4) as threads:
        statuses = sorted(status for status, _ in threads.map(service.request, versions))
    assert statuses == [201, 409, 409, 409]
    assert [item["state"] for item in service.get("promotions")["items"]] == ["requested"]
    assert [item["action"] for item in service.get("changes")["items"]].count("promotion.request") == 1


def test_a_request_sent_again_by_its_key_is_answered_and_not_repeated(service, tmp_path):
    version = add_version(tmp_path)
    body = {"model": MODEL, "version": version}
    first, again = (service.post("runner", "promotions", body, key="the-same-key") for _ in range(2))
    assert first == again
    assert service.post("runner", "promotions", {"model": "x", "version": 1}, key="the-same-key")[0] == 422
    assert len(service.get("promotions")["items"]) == 1
    assert ask(f"{service.url}/promotions", method="POST", body=body, **{"Idempotency-Key": ""}, **bearer())[0] == 422


def test_a_message_is_sent_until_it_is_received_under_one_id(service, consumer, tmp_path, monkeypatch):
    consumer.answers += [500, 302]
    number = service.request(add_version(tmp_path))[1]["id"]
    service.post("approver", f"promotions/{number}/approve")
    for count in (1, 2):
        wait_for(lambda count=count: len(consumer.messages) == count)
        wait_for(lambda count=count: rows(tmp_path, "SELECT attempts FROM deliveries") == [(count,)])
        write(tmp_path, "UPDATE deliveries SET due_at = '2020-01-01 00:00:00.000000'")
    wait_for(lambda: rows(tmp_path, "SELECT attempts, due_at FROM deliveries") == [(3, None)])
    assert len({(headers["Rubricworks-Delivery"], body) for headers, body in consumer.messages}) == 1


def test_a_message_that_nobody_receives_is_sent_for_three_days():
    pauses = [pause_after(attempts) for attempts in range(1, ATTEMPTS)]
    assert pauses[:3] == [timedelta(seconds=2), timedelta(seconds=4), timedelta(seconds=8)]
    assert timedelta(days=3) <= sum(pauses, timedelta()) < timedelta(days=3, hours=2)


@pytest.mark.parametrize(("alias_moved", "state"), [(True, "applied"), (False, "failed")])
def test_a_process_killed_while_it_applied_is_ended_by_what_the_registry_says(service, tmp_path, alias_moved, state):
    version = add_version(tmp_path)
    number = service.request(version)[1]["id"]
    write(tmp_path, "UPDATE promotions SET state = 'applying', decided_by = 'approver', decided_at = requested_at")
    if alias_moved:
        registry.promote(connect(TrackingConfig(), tmp_path), MODEL, version, expected=None)

    async def recover():
        database = Database(f"sqlite:///{tmp_path}/platform.db")
        await Promotions(database, MlflowRegistry("", tmp_path), has_consumer=True).recover(timedelta(0))
        await database.close()

    for _ in range(2):
        asyncio.run(recover())
    assert service.get(f"promotions/{number}")["state"] == state
    log = [item["action"] for item in service.get("changes")["items"] if item["subject"] == f"{MODEL}/{version}"]
    assert log == ["promotion.apply" if alias_moved else "promotion.fail", "promotion.request"]


def test_rights_of_a_rollback(service, tmp_path):
    asked = {"model": MODEL, "champion": promote(service, tmp_path), "reason": "x"}
    assert service.post("runner", "rollbacks", asked)[0] == 403
    status, body = service.post("approver", "rollbacks", asked)
    assert (status, "no champion before" in body["detail"]) == (409, True)


def lose_answer(folder, key, *, is_applied=True):
    """Leave a change as a service does that is killed before it stores its answer, once its claim has expired."""
    expired = (datetime.now(UTC) - timedelta(minutes=3)).strftime("%Y-%m-%d %H:%M:%S.%f")
    write(folder, f"UPDATE keyed_answers SET status = NULL, created_at = '{expired}' WHERE key = '{key}'")
    if not is_applied:  # as the result, the line of the audit log and the message are written with the answer
        last = "(SELECT max(id) FROM promotions)"
        write(folder, f"UPDATE promotions SET state = 'applying' WHERE id = {last}")
        write(folder, f"DELETE FROM deliveries WHERE promotion_id = {last}")
        write(folder, "DELETE FROM changes WHERE id = (SELECT max(id) FROM changes)")


@pytest.mark.parametrize("is_applied", [True, False])
@pytest.mark.parametrize("kind", ["promotion", "rollback"])
def test_a_decision_whose_service_was_killed_is_answered_as_at_first_and_made_once(
    service, consumer, tmp_path, kind, is_applied
):
    first = promote(service, tmp_path)
    second = add_version(tmp_path, against=first)
    number = service.request(second)[1]["id"]
    asked = {"promotion": (f"promotions/{number}/approve", {"reason": "good"})}
    asked["rollback"] = ("rollbacks", {"model": MODEL, "champion": second, "reason": "it stutters"})
    if kind == "rollback":
        service.post("approver", *asked["promotion"])
    before = service.post("approver", *asked[kind], key="the-decision")
    assert (before[1]["kind"], before[1]["state"]) == (kind, "applied")
    log, champions = rows(tmp_path, "SELECT action, subject FROM changes ORDER BY id"), aliases(tmp_path)
    lose_answer(tmp_path, "the-decision", is_applied=is_applied)
    again = [service.post("approver", *asked[kind], key="the-decision") for _ in range(2)]
    assert again == [before, before]
    assert rows(tmp_path, "SELECT action, subject FROM changes ORDER BY id") == log
    assert aliases(tmp_path) == champions
    told = rows(tmp_path, "SELECT promotion_id FROM deliveries ORDER BY id")
    assert told == rows(tmp_path, "SELECT id FROM promotions ORDER BY id")


def test_another_decision_of_a_promotion_is_refused(service, tmp_path):
    number = service.request(add_version(tmp_path))[1]["id"]
    asked = (f"promotions/{number}/approve", {"reason": "good"})
    assert service.post("approver-b", *asked, key="the-decision")[0] == 200
    write(tmp_path, f"UPDATE promotions SET decided_by = 'approver-a' WHERE id = {number}")
    lose_answer(tmp_path, "the-decision")
    status, body = service.post("approver-b", *asked, key="the-decision")
    assert (status, body["detail"]) == (409, f"promotion {number} is applied already")


def test_a_rollback_under_another_key_changes_nothing(service, tmp_path):
    first = promote(service, tmp_path)
    second = promote(service, tmp_path, against=first)
    asked = {"model": MODEL, "champion": second, "reason": "it stutters"}
    assert service.post("approver", "rollbacks", asked)[0] == 201
    status, body = service.post("approver", "rollbacks", asked)
    assert (status, f"version {first} is the champion now" in body["detail"]) == (409, True)
    assert aliases(tmp_path) == (first, second)
    assert [item["kind"] for item in service.get("promotions")["items"]] == ["rollback", "promotion", "promotion"]


def test_a_rollback_names_the_champion_that_it_takes_back(service, tmp_path):
    first = promote(service, tmp_path)
    second = promote(service, tmp_path, against=first)
    status, body = service.post("approver", "rollbacks", {"model": MODEL, "reason": "it stutters"})
    assert (status, [field["field"] for field in body["fields"]]) == (422, ["body.champion"])
    page = service.url.removesuffix("/api/v1") + "/promotions/roll-back"
    form = {"Content-Type": "application/x-www-form-urlencoded"} | bearer(service.secrets["approver"])
    unnamed, named = (
        urlencode({"model": MODEL, "reason": "x", **more}).encode() for more in ({}, {"champion": second})
    )
    assert exchange(page, method="POST", body=unnamed, **form)[0] == 422
    assert aliases(tmp_path) == (second, first)
    assert [exchange(page, method="POST", body=named, **form)[0] for _ in range(2)] == [303, 409]
    assert aliases(tmp_path) == (first, second)


def test_the_page_shows_the_gate_and_takes_the_decision(service, tmp_path):
    version = add_version(tmp_path, gate="better by <i>0.1</i>")
    number = service.request(version)[1]["id"]
    service.post("approver", "promotions/999/reject")  # its token
    page = service.url.removesuffix("/api/v1") + "/promotions"
    shown = exchange(page, **bearer(service.secrets["approver"]))[2].decode()
    assert "better by &lt;i&gt;0.1&lt;/i&gt;" in shown
    assert f'action="/promotions/{number}/approve"' in shown
    assert "another person decides" not in shown
    form = {"Content-Type": "application/x-www-form-urlencoded"} | bearer(service.secrets["approver"])
    status, headers, _ = exchange(f"{page}/{number}/approve", method="POST", body=b"reason=fine", **form)
    assert (status, headers["location"], aliases(tmp_path)) == (303, "/promotions", (version, None))
    assert exchange(f"{page}/{number}/reject", method="POST", body=b"reason=no", **form)[0] == 409


def test_a_rejection_needs_a_reason(service, tmp_path):
    number = service.request(add_version(tmp_path))[1]["id"]
    for body in ({}, {"reason": " "}):
        status, answer = service.post("approver", f"promotions/{number}/reject", body)
        assert (status, [field["field"] for field in answer["fields"]]) == (422, ["body.reason"])
    page = f"{service.pages}/promotions/{number}/reject"
    form = {"Content-Type": "application/x-www-form-urlencoded"} | bearer(service.secrets["approver"])
    status, _, answer = exchange(page, method="POST", body=b"reason=+", **form)
    assert (status, json.loads(answer)["fields"][0]["field"]) == (422, "reason")
    assert service.get(f"promotions/{number}")["state"] == "requested"


def test_each_rule_of_the_gate_is_a_row_with_its_value_its_bound_and_its_result(service, tmp_path):
    gate = Gate(no_alarm=True, forgetting_at_most=0.05)
    figures = {"win_rate": {"low": 0.62, "high": 0.8, "samples": 40}, "benchmark_gain": {"low": -0.2, "samples": 40}}
    findings = gate.check(figures, alarm=Alarm(state="silent")).tags[FINDINGS_TAG]
    version = add_version(tmp_path, **{FINDINGS_TAG: findings})
    promotion = service.request(version)[1]
    rules = [(finding["rule"], finding["value"], finding["bound"], finding["met"]) for finding in promotion["findings"]]
    assert rules == [
        ("win rate, low end", 0.62, 0.5, True),
        ("general benchmarks, gain over the base, low end", -0.2, -0.05, False),
        ("alarm of reward hacking", None, None, True),
        ("digest of its files", None, None, True),
    ]
    page = exchange(f"{service.pages}/promotions", **bearer())[2].decode()
    for name in (f"{MODEL} version {version}", f"promotion {promotion['id']}"):
        table = page.partition(f'aria-label="Gate of {name}"')[2].partition("</table>")[0]
        cells = [" ".join(re.sub("<[^>]+>", " ", row).split()) for row in table.split("<tr>")[2:]]
        assert cells == [
            "win rate, low end 0.620 of 40 samples above 0.5 pass",
            "general benchmarks, gain over the base, low end -0.200 of 40 samples at least -0.05 fail",
            "alarm of reward hacking has not fired \N{EN DASH} pass",
            "digest of its files 3f5a \N{EN DASH} pass",
        ]


def test_page_offers_no_second_request_and_shows_what_passed(service, tmp_path):
    def shown():
        return exchange(f"{service.pages}/promotions", **bearer())[2].decode()

    findings = Gate(no_alarm=True).check({}, alarm=Alarm(state="silent")).tags[FINDINGS_TAG]
    champion = add_version(tmp_path, **{FINDINGS_TAG: findings})
    number = service.request(champion)[1]["id"]
    assert service.post("approver", f"promotions/{number}/approve")[0] == 200
    gate = shown().partition(f'aria-label="Gate of {MODEL} version {champion}, the champion"')[2]
    assert "alarm of reward hacking" in gate.partition("</table>")[0]
    assert "better by 0.1" in gate
    version = add_version(tmp_path, against=champion)
    assert f"<button>Request {version}</button>" in shown()
    number = service.request(version)[1]["id"]
    assert f"request {number} waits for a decision" in shown()
    assert "<button>Request" not in shown()
    assert service.post("approver", f"promotions/{number}/reject", {"reason": "no"})[0] == 200
    assert "waits for a decision" not in shown()


def test_a_version_that_failed_its_gate_is_told_with_its_reason_and_its_run(service, tmp_path):
    run = write_run(tmp_path)
    (run / "recipe.yaml").write_text("name: quickstart\npipeline: rubicap\nworld: {scenes: 8}\n")
    promote(service, tmp_path)
    failed = Gate().check({"win_rate": {"low": 0.375, "high": 0.6, "samples": 8}})
    connection = connect(TrackingConfig(), tmp_path)
    tags = {**failed.tags, "run": "today-1", registry.DIGEST_TAG: "3f5a"}
    connection.client.create_model_version(MODEL, source=str(tmp_path), tags=tags)
    wait_for(lambda: ask(f"{service.url}/runs/today-1", **bearer())[0] == 200)
    (standing,) = service.get("models")["items"]
    assert (standing["champion"], standing["challenger"], standing["newest"]["version"]) == (1, None, 2)
    assert standing["newest"]["findings"][0]["met"] is False
    page = exchange(f"{service.pages}/promotions", **bearer())[2].decode()
    gate = page.partition(f"{MODEL} version 2, the newest, not promoted")[2].partition("the champion")[0]
    assert "of 8 samples" in gate
    assert '<a href="/runs/today-1">run today-1</a>' in gate
    assert "<strong>Simulated.</strong>" in page


def test_a_version_that_was_rolled_back_is_no_version_that_was_not_promoted(service, tmp_path):
    promote(service, tmp_path)
    second = promote(service, tmp_path, against=1)
    body = {"model": MODEL, "champion": second, "reason": "it stutters"}
    assert service.post("approver", "rollbacks", body)[0] in (200, 201)
    (standing,) = service.get("models")["items"]
    assert (standing["champion"], standing["previous"], standing["newest"]) == (1, second, None)


def test_on_a_service_without_tokens_the_second_person_is_led_to_the_login(tmp_path):
    add_version(tmp_path)
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.05)) as url:
        headers = {"Content-Type": "application/json", "Idempotency-Key": "request-1"}
        body = json.dumps({"model": MODEL, "version": 1}).encode()
        assert exchange(f"{url}/api/v1/promotions", method="POST", body=body, **headers)[0] == 201
        shown = exchange(f"{url}/promotions")[2].decode()
        assert 'another person decides: <a href="/login?next=/promotions">' in shown
        assert '<a class="caller" href="/login">Log in</a>' in shown


def test_each_action_from_the_command_line(service, tmp_path, monkeypatch):
    def promote(who, *arguments):
        monkeypatch.setenv("RUBRICWORKS_API_TOKEN", service.secrets[who])
        result = CliRunner().invoke(cli, ["promote", *arguments])
        return str(result.exception) if result.exception else result.output

    monkeypatch.setenv("RUBRICWORKS_API", service.url.removesuffix("/api/v1"))
    for who in ("runner", "approver"):
        service.post(who, "promotions/999/reject")  # its token
    first = add_version(tmp_path)
    assert "challenger version 1: waiting (better by 0.1" in promote("runner")
    assert f"promotion 1 of {MODEL} version {first} waits for approval at" in promote("runner", MODEL)
    assert "promotion 1 of" in promote("runner", MODEL), "the same request is not made twice"
    assert "promotion 1: version 1, asked by runner" in promote("runner")
    assert "this needs the right to approve" in promote("runner", MODEL, "--approve")
    assert promote("approver", MODEL, "--approve", "--reason", "good") == f"{MODEL} version {first} is the champion\n"
    second = add_version(tmp_path, against=first)
    promote("runner", MODEL, "--version", str(second))
    assert "a rejection needs a reason" in promote("approver", MODEL, "--reject")
    assert "is rejected" in promote("approver", MODEL, "--reject", "--reason", "it stutters")
    third = add_version(tmp_path, against=first)
    promote("runner", MODEL)
    promote("approver", MODEL, "--approve")
    assert aliases(tmp_path) == (third, first)
    back = ("approver", MODEL, "--roll-back", "--version", str(third), "--reason", "it stutters")
    assert f"--roll-back --version {third}" in promote("approver", MODEL, "--roll-back", "--reason", "it stutters")
    assert aliases(tmp_path) == (third, first)
    assert "is the champion again" in promote(*back)
    assert f"version {first} is the champion now" in promote(*back)
    assert aliases(tmp_path) == (first, third)
    assert "leave out --force" in promote("approver", MODEL, "--force")
    monkeypatch.delenv("RUBRICWORKS_API")
    assert "named by RUBRICWORKS_API" in promote("approver", MODEL, "--approve")
    assert f"--version {first}" in promote("approver", MODEL, "--roll-back", "--runs", str(tmp_path))
    for _ in range(2):
        promote("approver", MODEL, "--roll-back", "--version", str(first), "--runs", str(tmp_path))
        assert aliases(tmp_path) == (third, first)


def rows(folder, query):
    with sqlite3.connect(folder / "platform.db") as database:
        return database.execute(query).fetchall()


def write(folder, statement):
    with sqlite3.connect(folder / "platform.db") as database:
        database.execute(statement)


@pytest.mark.parametrize("route", ["promotions", "drift"])
@pytest.mark.parametrize("text", ["' OR 1=1 --", "1) UNION SELECT digest FROM tokens --", "%", "\\"])
def test_sql_in_a_filter_or_a_cursor_of_promotions_is_text(service, tmp_path, route, text):
    assert service.request(add_version(tmp_path))[0] == 201
    for field in ("model", "state", "cursor"):
        status, _, body = exchange(f"{service.url}/{route}?{urlencode({field: text})}", **bearer())
        assert status in (200, 422)
        assert b"sqlite" not in body.lower()
        if route == "promotions" and status == 200:
            assert json.loads(body)["items"] == []
    assert len(service.get("promotions")["items"]) == 1
