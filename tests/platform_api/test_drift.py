"""Drift between registry, promotions and consumer is told on the page, by readiness and as a metric, and left."""

import json
import threading

import pytest
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer, exchange, served
from test_promotions import MODEL, Service, add_version, aliases, write
from test_runs_and_rollouts import wait_for
from trained_run import write_run

from rubricworks.errors import UserError
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.tracking import TrackingConfig, connect, registry
from rubricworks.tracking.installation import ApiClient
from rubricworks.tracking.promotion_messages import Consumer, consumer_server

pytestmark = pytest.mark.slow


@pytest.fixture
def consumer(tmp_path):
    """A consumer that serves nothing while it has a problem; its API is set once there is one."""

    class Serving(Consumer):
        problem = ""

        def __init__(self):
            self.applied = []
            super().__init__(ApiClient("http://127.0.0.1:9", None), self.load, tmp_path / "serving.json")

        def load(self, message):
            if self.problem:
                raise UserError(self.problem)
            self.applied.append((message.version, message.kind))

    serving = Serving()
    server = consumer_server(0, "k3y", serving)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    serving.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield serving
    server.shutdown()


@pytest.fixture
def service(tmp_path, consumer, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "runs").mkdir()
    settings = ApiSettings(
        storage=str(tmp_path / "runs"),
        token=SecretStr(TOKEN),
        index_seconds=0.05,
        reconcile_seconds=0.05,
        webhook_url=consumer.url,
        webhook_secret=SecretStr("k3y"),
    )
    with served(settings) as url:
        consumer._api = ApiClient(url, TOKEN)
        yield Service(url)


def promote(service, folder, against=None):
    version = add_version(folder, against=against)
    number = service.request(version)[1]["id"]
    assert service.post("approver", f"promotions/{number}/approve")[0] == 200
    return number, version


def kinds(service):
    return [(item["model"], item["kind"]) for item in service.get("drift")["items"]]


def test_an_applied_message_is_confirmed_once_and_no_drift_is_found(service, consumer, tmp_path):
    number, version = promote(service, tmp_path / "runs")
    wait_for(lambda: service.get(f"promotions/{number}")["state"] == "confirmed")
    assert (consumer.applied, consumer.serving()) == ([(version, "promotion")], {MODEL: version})
    assert kinds(service) == []


def test_an_alias_that_moved_past_the_api_is_told_everywhere_and_left(service, tmp_path):
    runs = tmp_path / "runs"
    _, first = promote(service, runs)
    other = add_version(runs, against=first)
    registry.promote(connect(TrackingConfig(), runs), MODEL, other, expected=first)
    wait_for(lambda: (MODEL, "alias") in kinds(service))
    text = f"the alias is at version {other}, and the last promotion made it {first}"
    page = service.url.removesuffix("/api/v1")
    assert text.encode() in exchange(f"{page}/promotions", **bearer())[2]
    assert text in str(ask(f"{page}/readyz", **bearer())[1]["drift"])
    assert ask(f"{page}/readyz", **bearer())[0] == 200
    metrics = exchange(f"{page}/metrics", **bearer())[2].decode()
    assert f'rubricworks_promotion_drift{{kind="alias",model="{MODEL}"}} 1.0\n' in metrics
    assert 'rubricworks_promotions{state="confirmed"} 1.0\n' in metrics
    assert aliases(runs)[0] == other


def test_request_from_before_a_rollback_ends_with_it(service, consumer, tmp_path):
    runs = tmp_path / "runs"
    _, first = promote(service, runs)
    _, second = promote(service, runs, against=first)
    third = add_version(runs, against=second)
    old = service.request(third)[1]["id"]
    for champion in (second, first):
        assert service.post("approver", "rollbacks", {"model": MODEL, "champion": champion, "reason": "x"})[0] == 201
    ended = service.get(f"promotions/{old}")
    assert (ended["state"], f"version {second} was rolled back" in ended["decision"]) == ("failed", True)
    assert [item["action"] for item in service.get("changes")["items"] if item["subject"] == f"{MODEL}/{third}"] == [
        *("promotion.fail", "promotion.request")
    ]
    assert service.post("approver", f"promotions/{old}/approve")[0] == 409
    number = service.request(third)[1]["id"]
    assert service.post("approver", f"promotions/{number}/approve")[0] == 200
    wait_for(lambda: service.get(f"promotions/{number}")["state"] == "confirmed")
    assert (aliases(runs)[0], consumer.serving()) == (third, {MODEL: third})
    wait_for(lambda: kinds(service) == [])


def test_a_consumer_that_serves_another_version_or_never_confirms_is_told(service, consumer, tmp_path):
    number, version = promote(service, tmp_path / "runs")
    wait_for(lambda: service.get(f"promotions/{number}")["state"] == "confirmed")
    (tmp_path / "serving.json").write_text(f'{{"{MODEL}": {{"promotion": 99, "version": {version + 1}}}}}')
    wait_for(lambda: kinds(service) == [(MODEL, "consumer")])
    (tmp_path / "serving.json").unlink()
    wait_for(lambda: kinds(service) == [])
    consumer.problem = "it does not fit"
    number, _ = promote(service, tmp_path / "runs", against=version)
    write(tmp_path / "runs", f"UPDATE promotions SET decided_at = '2020-01-01 00:00:00.000000' WHERE id = {number}")
    wait_for(lambda: "no consumer has confirmed" in str(service.get("drift")))
    consumer.problem = ""
    write(tmp_path / "runs", "UPDATE deliveries SET due_at = '2020-01-01 00:00:00.000000' WHERE delivered_at IS NULL")
    wait_for(lambda: service.get(f"promotions/{number}")["state"] == "confirmed")
    wait_for(lambda: kinds(service) == [])


def test_the_list_of_runs_has_the_run_whose_model_is_the_champion(service, tmp_path):
    runs = tmp_path / "runs"
    for version in (1, 2):
        run = write_run(runs, f"night-{version}")
        (run / "promote").mkdir()
        (run / "promote" / "promotion.json").write_text(json.dumps({"model_name": MODEL, "version": str(version)}))

    def champions():
        return [(run["name"], run["champion"]) for run in service.get("runs?champion=true")["items"]]

    _, first = promote(service, runs)
    wait_for(lambda: champions() == [(f"night-{first}", f"{MODEL} {first}")])
    _, second = promote(service, runs, against=first)
    wait_for(lambda: champions() == [(f"night-{second}", f"{MODEL} {second}")])
    assert service.get("runs?sort=champion")["items"][0]["name"] == f"night-{second}"
