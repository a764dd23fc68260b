"""Promotions under faults on Postgres: decisions at once on two services, and a database that is restarted."""

import asyncio
import threading
import time
from datetime import timedelta

import pytest
from promotion_storm import Installation
from pydantic import SecretStr
from served_api import TOKEN, served
from test_api_postgres import migrated, postgres  # noqa: F401

from rubricworks.platform_api.services.promotion import promotions
from rubricworks.platform_api.settings import ApiSettings

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]
ROUNDS = 200


@pytest.fixture(autouse=True)
def _no_server(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def settings(postgres, runs, **more):  # noqa: F811
    return ApiSettings(database=postgres.url(), storage=str(runs), token=SecretStr(TOKEN), **more)


def test_two_approvers_and_a_rollback_at_once_200_times(postgres, tmp_path):  # noqa: F811
    asyncio.run(migrated(postgres))
    with served(settings(postgres, tmp_path)) as url, served(settings(postgres, tmp_path)) as other:
        Installation(url, tmp_path).require_one_winner_each(ROUNDS, [url, other])


def test_a_database_that_is_restarted_during_approvals_loses_and_doubles_nothing(postgres, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(promotions, "RECOVERED_AFTER", timedelta(seconds=1))
    asyncio.run(cleared(postgres))
    with served(settings(postgres, tmp_path, index_seconds=0.2, reconcile_seconds=0.5)) as url:
        installation = Installation(url, tmp_path)
        ended = threading.Event()

        def restart() -> None:
            while not ended.wait(3):
                postgres.stop()
                time.sleep(0.5)
                postgres.start()

        restarting = threading.Thread(target=restart)
        restarting.start()
        try:
            answers: list[list[int]] = []
            deadline = time.monotonic() + 300
            while len(answers) < 8 or sum(503 in statuses for statuses in answers) < 2:
                assert time.monotonic() < deadline, "no restart was met"
                answers.append(promote(installation))
        finally:
            ended.set()
            restarting.join()
        deadline = time.monotonic() + 300
        while any(change["state"] == "applying" for change in installation.pages("promotions")):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        installation.require_agreement()
        assert sum(change["state"] == "applied" for change in installation.pages("promotions")) == len(answers)


def promote(installation):
    """Request and approve a version until it is applied; the statuses that were met."""
    version, statuses = installation.add_version(), []

    def promotion():
        answer = installation.get("promotions?model=captioner&limit=1")
        items = [item for item in answer.get("items", []) if item["version"] == version]
        return items[0] if items else None

    deadline = time.monotonic() + 300
    while (promoted := promotion()) is None or promoted["state"] != "applied":
        assert time.monotonic() < deadline, (promoted, statuses)
        if promoted is None:
            status, _ = installation.post("runner", "promotions", {"model": "captioner", "version": version})
        else:
            status, _ = installation.post("approver-a", f"promotions/{promoted['id']}/approve")
        statuses.append(status)
        time.sleep(0.1 if status < 300 else 0.3)
    return statuses


async def cleared(postgres):  # noqa: F811
    """A database without the promotions of another test."""
    from sqlalchemy import text

    from rubricworks.platform_api.db.engine import Database

    await migrated(postgres)
    database = Database(postgres.url().get_secret_value())
    async with database.engine.begin() as connection:
        await connection.execute(text("TRUNCATE deliveries, promotions, changes, tokens, sessions, keyed_answers"))
    await database.close()
