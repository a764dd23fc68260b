"""A database that is damaged or full: the caller and the log are told in words, and a server refuses to start on it."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer, exchange, served
from sqlalchemy.exc import InternalError, OperationalError

from rubricworks.cli import main
from rubricworks.platform_api.db.faults import describe_fault
from rubricworks.platform_api.settings import DATABASE_FILE, ApiSettings

PAGE = 4096


def settings(folder: Path) -> ApiSettings:
    return ApiSettings(token=SecretStr(TOKEN), storage=str(folder), index_seconds=0.05)


def create_token(url: str, name: str) -> tuple[int, dict[str, str], bytes]:
    body = {"name": name, "scope": "viewer", "days": 1}
    return exchange(f"{url}/api/v1/tokens", method="POST", body=body, **bearer())


@pytest.mark.parametrize("folder", ["what?", "100% #1", "a%41?b=c"])
def test_a_folder_of_runs_may_have_any_name(tmp_path, folder):
    with served(settings(tmp_path / folder)) as url:
        assert create_token(url, "one")[0] == 201
    assert (tmp_path / folder / DATABASE_FILE).is_file()
    assert [path.name for path in tmp_path.iterdir()] == [folder]


def damage(path: Path, first_page: int) -> None:
    """Overwrite a database's file from a page on, counted from the end if it is negative."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = path.stat().st_size
    begin = range(0, size, PAGE)[first_page]
    with path.open("r+b") as file:
        file.seek(begin)
        file.write(b"x" * (size - begin))


@pytest.fixture
def stored(tmp_path) -> Path:
    """The file of a database with a token."""
    with served(settings(tmp_path)) as url:
        assert create_token(url, "ci")[0] == 201
    return tmp_path / DATABASE_FILE


@pytest.mark.parametrize(
    ("first_page", "reason"),
    [(0, "file is not a database"), (2, "database disk image is malformed"), (-1, "btreeInitPage")],
)
def test_a_server_does_not_start_on_a_damaged_file(stored, monkeypatch, capsys, first_page, reason):
    for name in ("RUBRICWORKS_API_TOKEN", "RUBRICWORKS_DATABASE_URL", "RUBRICWORKS_STORAGE"):
        monkeypatch.delenv(name, raising=False)
    damage(stored, first_page)
    with pytest.raises(SystemExit) as stopped:
        main(["server", "--runs", str(stored.parent), "--port", "0"])
    printed = capsys.readouterr()
    assert (stopped.value.code, printed.out, len(printed.err.splitlines())) == (2, "", 1)
    assert f"{stored}: the database is damaged (" in printed.err
    assert reason in printed.err
    assert "move the file away with its -wal and -shm" in printed.err


def test_a_file_that_is_damaged_under_a_server_is_told(tmp_path, caplog):
    with served(settings(tmp_path)) as url:
        assert create_token(url, "ci")[0] == 201
        damage(tmp_path / DATABASE_FILE, 0)
        caplog.clear()
        status, headers, content = exchange(f"{url}/api/v1/runs", **bearer())
        assert (status, headers["content-type"]) == (503, "application/problem+json")
        assert b"the database is damaged; /readyz and the log say more" in content
        assert "retry-after" not in headers, "it stays damaged"
        assert create_token(url, "other")[0] == 503
        page = exchange(f"{url}/runs", Accept="text/html", **bearer())
        assert (page[0], b"the database is damaged" in page[2]) == (503, True)
        assert "move the file away" in str(ask(f"{url}/readyz", **bearer())[1]["checks"]["database"]["detail"])
        assert ask(f"{url}/healthz")[0] == 200
    told = [record for record in caplog.records if "GET /api/v1/runs: the database is damaged" in record.message]
    assert [record.levelname for record in told] == ["WARNING"]
    assert "Traceback" not in caplog.text
    assert [record for record in caplog.records if record.levelno > logging.WARNING] == []


@pytest.mark.slow
def test_a_full_disk_is_told_and_writing_goes_on_once_there_is_room(disk, caplog):
    with served(settings(disk.path / "runs")) as url:
        assert create_token(url, "ci")[0] == 201
        disk.fill()
        answers = [create_token(url, f"t{number}") for number in range(100)]
        status, headers, content = next(answer for answer in answers if answer[0] != 201)
        assert (status, headers["retry-after"]) == (503, "60")
        assert b"the disk of the database is full" in content
        assert ask(f"{url}/api/v1/runs", **bearer())[0] == 200, "reading goes on"
        disk.make_room()
        assert create_token(url, "after")[0] == 201
    assert "the disk of the database is full (database or disk is full): make room on it" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("wrapper", "raised", "words"),
    [
        (OperationalError, psycopg.errors.DiskFull, "the disk of the database is full (no space left on device): "),
        (InternalError, psycopg.errors.DataCorrupted, "the database is damaged (no space left on device): restore it"),
        (InternalError, psycopg.errors.IndexCorrupted, "the database is damaged"),
        (InternalError, psycopg.errors.ReadOnlySqlTransaction, "the database cannot be written"),
        (OperationalError, psycopg.errors.TooManyConnections, "the database takes no more connections"),
        (OperationalError, psycopg.errors.AdminShutdown, "the database does not answer (no space left on device)"),
    ],
)
def test_what_postgres_says_is_told_in_the_same_words(wrapper, raised, words):
    error = wrapper("SELECT 'a secret'", {}, raised("no space left on device\nDETAIL: more"))
    assert describe_fault(error).startswith(words)
    assert "secret" not in describe_fault(error)
