"""Promotions under faults on SQLite: decisions at once, a kill between alias and message, a registry that is away."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from promotion_storm import MODEL, Installation
from pydantic import SecretStr
from served_api import TOKEN, exchange, served
from sqlalchemy import select, update

from rubricworks.errors import UserError
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.migrate import migrate
from rubricworks.platform_api.db.tables import Change, Delivery, Promotion, utc_now
from rubricworks.platform_api.problems import Conflict, Problem
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.platform_api.services.promotion import promotions
from rubricworks.platform_api.services.promotion.promotions import Candidate, Promotions, Standing
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.tracking.installation import ApiClient
from rubricworks.tracking.promotion_messages import Consumer, consumer_server

pytestmark = pytest.mark.slow
ROUNDS = 200


@pytest.fixture(autouse=True)
def _no_server(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.mark.long
def test_two_approvers_and_a_rollback_at_once_200_times(tmp_path):
    with served(ApiSettings(storage=str(tmp_path), token=SecretStr(TOKEN))) as url:
        Installation(url, tmp_path).require_one_winner_each(ROUNDS, [url])


SERVER = """
    import os, signal, sys
    from rubricworks.platform_api.services.promotion.mlflow_registry import MlflowRegistry
    from rubricworks.cli import main
    move = MlflowRegistry.move
    def move_and_die(self, *arguments):
        move(self, *arguments)
        os.kill(os.getpid(), signal.SIGKILL)
    if "die" in sys.argv:
        MlflowRegistry.move = move_and_die
    main(["server", "--runs", sys.argv[1], "--port", "0"])
"""


def test_process_killed_between_alias_and_message_is_completed(tmp_path, monkeypatch):
    runs, applied = tmp_path / "runs", []
    runs.mkdir()
    api = ApiClient("http://127.0.0.1:9", None)
    consumer = Consumer(api, applied.append, tmp_path / "serving.json")
    receiver = consumer_server(0, "k3y", consumer)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    hook = f"http://127.0.0.1:{receiver.server_address[1]}"
    script = tmp_path / "server.py"
    script.write_text("\n".join(line.removeprefix("    ") for line in SERVER.splitlines()))
    variables = {"RUBRICWORKS_WEBHOOK_URL": hook, "RUBRICWORKS_WEBHOOK_SECRET": "k3y", "RUBRICWORKS_API_TOKEN": TOKEN}
    command = [sys.executable, str(script), str(runs), "die"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables}) as process:
        installation = Installation(process.stdout.readline().strip(), runs)
        number = installation.request()
        with pytest.raises(OSError):
            installation.post("approver-a", f"promotions/{number}/approve", key="killed-once")
        assert process.wait(300) == -signal.SIGKILL
    version = installation.champion()
    assert (version is not None, applied) == (True, [])
    monkeypatch.setattr(promotions, "RECOVERED_AFTER", timedelta(0))
    settings = ApiSettings(
        storage=str(runs),
        token=SecretStr(TOKEN),
        index_seconds=0.05,
        reconcile_seconds=0.1,
        webhook_url=hook,
        webhook_secret=SecretStr("k3y"),
    )
    with served(settings) as url:
        consumer._api = ApiClient(url, TOKEN)
        installation.url = f"{url}/api/v1"
        with sqlite3.connect(runs / "platform.db") as claims:
            claims.execute("UPDATE keyed_answers SET created_at = '2020-01-01 00:00:00.000000' WHERE status IS NULL")
        status, again = installation.post("approver-a", f"promotions/{number}/approve", key="killed-once")
        assert (status, again["version"], again["state"] in ("applied", "confirmed")) == (200, version, True)
        deadline = time.monotonic() + 300
        while installation.get(f"promotions/{number}")["state"] != "confirmed":
            assert time.monotonic() < deadline
            time.sleep(0.1)
        installation.require_agreement()
        assert installation.get("drift")["items"] == []
    receiver.shutdown()
    assert ([message.version for message in applied], consumer.serving()) == ([version], {MODEL: version})


class FaultyRegistry:
    """A registry whose answers are lost, before it has done what it was asked or after."""

    def __init__(self) -> None:
        self.champion: int | None = 1
        self.fault = ""
        self.away = False

    def standing(self, model: str) -> Standing:
        if self.away:
            raise UserError("no MLflow server at http://mlflow")
        return Standing("captioner", self.champion, None, None)

    def standings(self, limit: int, token: str | None) -> tuple[dict[str, Standing], str | None]:
        return {MODEL: self.standing(MODEL)}, None

    def champion(self, model: str) -> int | None:
        return self.standing(model).champion

    def candidate(self, model: str, version: int) -> Candidate:
        return Candidate(version, "3f5a", "better", waits=True)

    def move(self, model: str, version: int, expected: int | None, decided_by: str) -> None:
        if self.fault == "before":
            raise UserError("no answer")
        assert self.champion == expected
        self.champion = version
        if self.fault:
            self.away = self.fault == "after and away"
            raise UserError("no answer")


@pytest.mark.parametrize(
    ("fault", "first", "states"),
    [
        ("before", Conflict, ["failed", "failed"]),
        ("after", None, ["applied", "applied"]),
        ("after and away", Problem, ["applying", "applied"]),
    ],
)
def test_a_registry_whose_answer_is_lost_decides_how_a_promotion_ends(tmp_path, fault, first, states):
    async def work() -> tuple[object, list[str], list[str]]:
        database = Database(f"sqlite:///{tmp_path}/x.db")
        await migrate(database)
        registry = FaultyRegistry()
        service = Promotions(database, registry, has_consumer=True)
        number = (await service.request(Principal("runner", "runner"), MODEL, 2, "")).id
        registry.fault = fault
        raised: type | None = None
        try:
            await service.approve(Principal("approver", "approver"), number, "")
        except Problem as problem:
            raised = type(problem)
        seen = [await state(database, number)]
        await service.recover(timedelta(0))
        registry.away = False
        for _ in range(2):
            await service.recover(timedelta(0))
        seen.append(await state(database, number))
        async with database.session() as session:
            messages = [row.body for row in await session.scalars(select(Delivery))]
        await database.close()
        return raised, seen, messages

    async def state(database: Database, number: int) -> str:
        async with database.session() as session:
            return (await promotions.get_promotion(session, number)).state

    raised, seen, messages = asyncio.run(work())
    assert (raised, seen) == (first, states)
    assert len(messages) == (states[1] == "applied")


def test_mlflow_away_is_a_banner_and_a_refusal_in_words(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with served(ApiSettings(storage=str(tmp_path))) as url:
        status, _, page = exchange(f"{url}/promotions")
        assert (status, b"The registry does not answer" in page) == (200, True)
        head = {"Idempotency-Key": "of-the-test"}
        body = {"model": MODEL, "version": 1}
        status, _, answer = exchange(f"{url}/api/v1/promotions", method="POST", body=body, **head)
        assert status == 503
        assert "127.0.0.1:9" in json.loads(answer)["detail"]
        assert Path(tmp_path / "platform.db").exists()


class HangingRegistry(FaultyRegistry):
    """A registry that moves the alias once it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_go_on = threading.Event(), threading.Event()

    def move(self, model: str, version: int, expected: int | None, decided_by: str) -> None:
        self.is_asked.set()
        assert self.may_go_on.wait(20)
        super().move(model, version, expected, decided_by)


@pytest.mark.parametrize("is_seen", [True, False])
def test_an_alias_that_moves_after_a_long_time_is_told_to_the_consumer(tmp_path, monkeypatch, is_seen):
    """The process that moves it is seen to live, or, as while the database was away, it is not."""
    monkeypatch.setattr(promotions, "_RENEWED_EVERY", 0.01 if is_seen else 20.0)

    async def work() -> tuple[str, str, int, list[str]]:
        database = Database(f"sqlite:///{tmp_path}/x.db")
        await migrate(database)
        registry = HangingRegistry()
        service = Promotions(database, registry, has_consumer=True)
        number = (await service.request(Principal("runner", "runner"), MODEL, 2, "")).id
        approval = asyncio.create_task(service.approve(Principal("approver", "approver"), number, ""))
        await asyncio.to_thread(registry.is_asked.wait, 20)
        long_ago = utc_now() - 2 * promotions.RECOVERED_AFTER
        async with database.session() as session:
            await session.execute(update(Promotion).values(decided_at=long_ago))
        for _ in range(1000 if is_seen else 0):
            async with database.session() as session:
                if (await promotions.get_promotion(session, number)).decided_at > long_ago:
                    break
        await service.recover()
        async with database.session() as session:
            meanwhile = (await promotions.get_promotion(session, number)).state
        registry.may_go_on.set()
        ended = await approval
        async with database.session() as session:
            messages = (await session.scalars(select(Delivery))).all()
            log = [row.action for row in await session.scalars(select(Change).order_by(Change.id))]
        await database.close()
        return meanwhile, ended.state, len(messages), log

    told = [] if is_seen else ["promotion.fail"]
    log = ["promotion.request", *told, "promotion.apply"]
    assert asyncio.run(work()) == ("applying" if is_seen else "failed", "applied", 1, log)


def test_an_alias_that_moves_after_another_decision_is_a_conflict(tmp_path):
    async def work() -> None:
        database = Database(f"sqlite:///{tmp_path}/x.db")
        await migrate(database)
        registry = HangingRegistry()
        service = Promotions(database, registry, has_consumer=True)
        approver = Principal("approver", "approver")
        first = (await service.request(Principal("runner", "runner"), MODEL, 2, "")).id
        late = asyncio.create_task(service.approve(approver, first, ""))
        await asyncio.to_thread(registry.is_asked.wait, 20)
        await service.recover(timedelta(0))
        second = (await service.request(Principal("runner", "runner"), MODEL, 3, "")).id
        async with database.session() as session:  # by another service, whose registry answers
            await session.execute(update(Promotion).where(Promotion.id == second).values(state="applied"))
        registry.may_go_on.set()
        with pytest.raises(Conflict, match=f"promotion {first} was given up"):
            await late
        async with database.session() as session:
            assert (await session.scalars(select(Delivery))).all() == []
        await database.close()

    asyncio.run(work())
