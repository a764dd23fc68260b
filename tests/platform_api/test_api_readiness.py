"""Ready when what the service depends on answers; what is wrong is told to who may know it, secrets to nobody."""

import asyncio
import logging
import sqlite3
import threading
import time
from contextlib import closing

import pytest
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer, served, wait_for
from trained_run import write_run

from rubricworks.cli import main
from rubricworks.errors import UserError
from rubricworks.platform_api import app, readiness
from rubricworks.platform_api.db.migrate import REVISIONS
from rubricworks.platform_api.readiness import Dependency
from rubricworks.platform_api.services import run_storage
from rubricworks.platform_api.settings import ApiSettings

PASSWORD = "p4ssword-of-the-tests"


def settings(**fields: object) -> ApiSettings:
    return ApiSettings(token=SecretStr(TOKEN), **fields)


def test_database_and_storage_that_answer(tmp_path):
    database = SecretStr(f"sqlite:///{tmp_path}/platform.db")
    with served(settings(database=database, storage=(tmp_path / "runs").as_uri())) as url:
        status, body = ask(url + "/readyz")
        assert (status, body) == (
            200,
            {"status": "ready", "checks": {"database": {"status": "ok"}, "storage": {"status": "ok"}}},
        )
        assert ask(url + "/readyz", **bearer())[1]["checks"]["database"]["detail"] == "sqlite answers"


def test_a_service_without_dependencies_is_ready():
    with served(settings()) as url:
        assert ask(url + "/readyz") == (200, {"status": "ready", "checks": {}})


def test_a_database_that_cannot_be_reached_is_told_without_its_password(caplog):
    caplog.set_level(logging.DEBUG)
    database = SecretStr(f"postgresql://someone:{PASSWORD}@127.0.0.1:9/platform")
    with served(settings(database=database)) as url:
        for_all, for_operators = ask(url + "/readyz"), ask(url + "/readyz", **bearer())
        assert ask(url + "/healthz")[0] == 200, "a kubelet that restarts the pod does not bring the database back"
    assert for_all == (503, {"status": "not ready", "checks": {"database": {"status": "failed"}}})
    assert for_operators[0] == 503
    assert "127.0.0.1" in for_operators[1]["checks"]["database"]["detail"]
    assert "database: postgresql+psycopg://someone:***@127.0.0.1:9/platform" in caplog.text
    assert PASSWORD not in f"{for_operators} {caplog.text} {settings(database=database)!r}"


def test_a_storage_that_cannot_be_written(tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    database = SecretStr(f"sqlite:///{tmp_path}/platform.db")
    with served(settings(storage=str(in_the_way), database=database)) as url:
        status, body = ask(url + "/readyz", **bearer())
    assert status == 503
    assert str(in_the_way) in body["checks"]["storage"]["detail"]


def test_a_database_in_a_folder_that_comes_later_is_told_and_made_once_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(app, "_AGAIN_AFTER", 0.02)
    monkeypatch.setattr(readiness, "_FAILURE_SECONDS", 0.02)
    monkeypatch.setattr(run_storage, "_AGAIN_AFTER", 0.02)
    in_the_way = tmp_path / "mount"  # a place that cannot be made, also by root
    in_the_way.write_text("")
    with served(settings(storage=str(in_the_way / "runs"))) as url:
        status, body = ask(url + "/readyz", **bearer())
        assert (status, body["checks"]["database"]["status"]) == (503, "failed")
        assert "unable to open database file" in body["checks"]["database"]["detail"]
        status, body = ask(url + "/api/v1/runs", **bearer())
        assert (status, "/readyz says why" in body["detail"]) == (503, True)
        in_the_way.unlink()
        wait_for(lambda: ask(url + "/api/v1/runs", **bearer()) == (200, {"items": [], "next_cursor": None}))
        wait_for(lambda: ask(url + "/readyz")[0] == 200)


def set_revision(file, revision):
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = ?", [revision])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("revision", "status", "told", "level"),
    [
        ("9999", 200, "sqlite answers; a newer version has migrated it to revision 9999", logging.WARNING),
        ("3500859a5d39", 503, "none of Rubricworks: another program uses it", logging.ERROR),
    ],
)
def test_a_database_that_this_version_did_not_migrate_is_told_once(
    tmp_path, monkeypatch, caplog, capsys, revision, status, told, level
):
    monkeypatch.setattr(app, "_AGAIN_AFTER", 0.02)
    write_run(tmp_path)
    with served(settings(storage=str(tmp_path))):
        pass
    set_revision(tmp_path / "platform.db", revision)
    with served(settings(storage=str(tmp_path), index_seconds=0.02)) as url:
        wait_for(lambda: ask(f"{url}/api/v1/runs", **bearer())[1]["items"])
        result, body = ask(f"{url}/readyz", **bearer())
        time.sleep(0.2)
    with pytest.raises(SystemExit) as end:
        main(["tokens", "create", "ada", "--scope", "viewer", "--runs", str(tmp_path)])
    assert (result, told in body["checks"]["database"]["detail"]) == (status, True), body
    assert (end.value.code == 0) == (status == 200), capsys.readouterr()
    assert [record.levelno for record in caplog.records if record.name == app.__name__] == [level]


def test_a_newer_versions_database_needs_no_migration(tmp_path, monkeypatch, capsys):
    """The Job of a `helm rollback`: were it to fail, so would the rollback."""
    monkeypatch.setenv("RUBRICWORKS_DATABASE_URL", f"sqlite:///{tmp_path}/platform.db")
    for revision, expected in ((None, REVISIONS[-1]), ("9999", "9999 of a newer version; this version works on it")):
        if revision:
            set_revision(tmp_path / "platform.db", revision)
        with pytest.raises(SystemExit) as end:
            main(["server", "migrate", "--runs", str(tmp_path)])
        printed = capsys.readouterr()
        assert (end.value.code, printed.err) == (0, "")
        assert printed.out == f"the database is at revision {expected}\n"


def answers(dependency: Dependency, times: int) -> list[tuple[bool, str]]:
    async def ask_it() -> list[tuple[bool, str]]:
        results = [await dependency.finding() for _ in range(times)]
        return [(finding.ok, finding.detail) for finding in results]

    return asyncio.run(ask_it())


def test_a_finding_is_kept_while_it_is_fresh():
    calls = []
    dependency = Dependency("store", lambda: calls.append(1) or "answers", fresh=60)
    assert answers(dependency, 3) == [(True, "answers")] * 3
    assert len(calls) == 1


def test_what_comes_back_is_ready_again_and_only_changes_are_logged(caplog):
    caplog.set_level(logging.INFO)
    states = iter(["down", "down", "up", "up"])

    def ask_store() -> str:
        if next(states) == "down":
            raise UserError("bucket runs is not there")
        return "answers"

    result = answers(Dependency("store", ask_store, fresh=0), 4)
    assert [ok for ok, _ in result] == [False, False, True, True]
    assert caplog.messages == ["store: bucket runs is not there", "store: answers"]


def test_a_store_that_hangs_fails_in_time_and_is_asked_once_meanwhile():
    waiting, calls = threading.Event(), []
    dependency = Dependency("store", lambda: calls.append(1) or str(waiting.wait(300)), fresh=0, deadline=0.05)

    async def probe() -> tuple[list[bool], bool]:
        hanging = await asyncio.gather(*(dependency.finding() for _ in range(5)))
        hanging.append(await dependency.finding())
        waiting.set()
        later = [await dependency.finding() for _ in range(3)]  # each waits a while
        assert all(finding.detail == "no answer within 0.05 s" for finding in hanging)
        return [finding.ok for finding in hanging], any(finding.ok for finding in later)

    assert asyncio.run(probe()) == ([False] * 6, True)
    assert len(calls) <= 1 + 3, "the six that hung were one question"


def test_a_fault_of_ours_is_logged_and_not_shown(caplog):
    def broken() -> str:
        raise RuntimeError(PASSWORD)

    ((ok, detail),) = answers(Dependency("store", broken), 1)
    assert (ok, detail) == (False, "asking failed; the service's log has the reason")


def test_a_stop_does_not_wait_for_a_store_that_hangs():
    let_go, ended = threading.Event(), []
    dependency = Dependency("store", lambda: str(let_go.wait(300)) + str(ended.append(1)), deadline=0.05)
    assert answers(dependency, 1) == [(False, "no answer within 0.05 s")]
    assert ended == [], "its loop has ended before the answer came"
    let_go.set()
