"""The service on a real Postgres: its readiness, its migrations, its index of runs."""

import asyncio
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from object_store import free_port
from odd_run import check_odd_run, write_odd_run
from pydantic import SecretStr
from repeated_posts import check_posts_at_once
from served_api import TOKEN, Caller, ask, bearer, exchange, served, wait_for, wait_for_rollouts
from sqlalchemy import text
from trained_run import STAGE, write_run

from rubricworks.platform_api.app import guarded_routes
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.migrate import migrate
from rubricworks.platform_api.db.tables import Table
from rubricworks.platform_api.settings import ApiSettings

pytestmark = pytest.mark.cluster

PASSWORD, IN_URL = "p4ss/word of the t€sts", "p4ss%2Fword%20of%20the%20t%E2%82%ACsts"


def programs() -> Path | None:
    """Folder of Postgres's programs; Debian keeps them off the path."""
    program = shutil.which("postgres") or next(map(str, Path("/usr/lib/postgresql").glob("*/bin/postgres")), None)
    return Path(program).parent if program else None


class Postgres:
    """A server over a folder of its own. It refuses to run as root."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.data, self.programs, self.port = folder / "data", programs, free_port()
        self.user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        (folder / "password").write_text(PASSWORD)
        for place in (folder, folder / "password"):
            shutil.chown(place, self.user)
        options = ("--username=service", "--auth=scram-sha-256", f"--pwfile={folder / 'password'}", "--encoding=UTF8")
        self._run("initdb", "--pgdata", str(self.data), *options, "--no-sync")

    def start(self) -> None:
        listening = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self.data.parent}"
        self._run("pg_ctl", "-D", str(self.data), "-o", listening, "-l", str(self.data.parent / "log"), "-w", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self.data), "-m", "immediate", "stop")

    def url(self, password: str = IN_URL, database: str = "postgres") -> SecretStr:
        return SecretStr(f"postgresql://service:{password}@127.0.0.1:{self.port}/{database}")

    def new_database(self, name: str) -> str:
        """URL of an empty database."""
        with psycopg.connect(self.url().get_secret_value(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.url(database=name).get_secret_value()

    def _run(self, program: str, *arguments: str) -> None:
        user = self.user if os.geteuid() == 0 else None
        command = [str(self.programs / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, user=user, cwd="/", check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    tools = programs()
    if tools is None:
        pytest.skip("not installed: postgresql; run tests/cluster/install.sh")
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:  # pytest's own are for its user alone
        server = Postgres(Path(folder), tools)
        server.start()
        yield server
        server.stop()


@contextmanager
def service(database: SecretStr) -> Iterator[Callable[[], tuple[int, dict[str, str]]]]:
    """Asks a service over this database whether it is ready."""
    with served(ApiSettings(token=SecretStr(TOKEN), database=database)) as url:

        def ready() -> tuple[int, dict[str, str]]:
            status, body = ask(url + "/readyz", **bearer())
            return status, body["checks"]["database"]

        yield ready


def until(ready: Callable[[], tuple[int, dict[str, str]]], status: int) -> dict[str, str]:
    """The finding once it has this status: a finding is kept some seconds."""
    deadline = time.monotonic() + 300
    while (result := ready())[0] != status:
        assert time.monotonic() < deadline, result
        time.sleep(0.2)
    return result[1]


def test_not_ready_before_its_tables_are_there(postgres):
    with service(postgres.url()) as ready:
        assert ready()[0] == 503
        assert "rubricworks server migrate" in ready()[1]["detail"]
        asyncio.run(migrated(postgres))
        assert until(ready, 200)["status"] == "ok"


def test_ready_not_ready_while_the_database_is_down_and_ready_again(postgres):
    asyncio.run(migrated(postgres))
    with service(postgres.url()) as ready:
        assert ready() == (200, {"status": "ok", "detail": "postgresql answers"})
        postgres.stop()
        down = until(ready, 503)
        postgres.start()
        assert until(ready, 200)["status"] == "ok", "a connection from before is not used again"
    assert down["status"] == "failed"


def test_a_password_that_is_refused_is_said_and_not_shown(postgres, caplog):
    with service(postgres.url("wr0ng-s3cret")) as ready:
        status, body = ready()
    assert status == 503
    assert "password authentication failed" in body["detail"]
    assert "wr0ng-s3cret" not in f"{body} {caplog.text}"


def test_two_pods_migrate_at_once_and_the_tables_are_those_of_the_code(postgres):
    async def work() -> tuple[list[str], list[object]]:
        databases = [Database(postgres.url().get_secret_value()) for _ in range(2)]
        revisions = await asyncio.gather(*(migrate(database) for database in databases))
        async with databases[0].engine.connect() as connection:
            difference = await connection.run_sync(
                lambda plain: compare_metadata(MigrationContext.configure(plain), Table.metadata)
            )
        for database in databases:
            await database.close()
        return revisions, difference

    (first, second), difference = asyncio.run(work())
    assert first == second
    # Of the tables on SQLite alone it is no part.
    assert [(kind, index.name) for kind, index in difference] == [("remove_index", "ix_runs_name_parts")]


def test_search_for_a_part_of_a_name_reads_an_index(postgres):
    """The index needs an extension that the database's owner may create."""

    async def work() -> str:
        database = Database(postgres.url().get_secret_value())
        await migrate(database)
        async with database.engine.begin() as connection:
            await connection.execute(text("SET LOCAL enable_seqscan = off"))
            plan = await connection.execute(text("EXPLAIN SELECT * FROM runs WHERE name LIKE '%0123%'"))
            lines = "\n".join(line for (line,) in plan)
        await database.close()
        return lines

    assert "ix_runs_name_parts" in asyncio.run(work())


def test_runs_are_indexed_and_shown(postgres, tmp_path):
    write_run(tmp_path)
    asyncio.run(migrated(postgres))
    with served(ApiSettings(database=postgres.url(), storage=str(tmp_path), index_seconds=0.05)) as url:
        groups = f"{url}/api/v1/runs/today-1/stages/{STAGE}/groups"
        deadline = time.monotonic() + 300
        while len(ask(groups)[1].get("items", [])) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert ask(f"{groups}/1/a")[1]["rollouts"][0]["reward"] == pytest.approx(2 / 3)
        assert ask(f"{url}/api/v1/runs?limit=1")[1]["items"][0]["name"] == "today-1"
        assert len(ask(f"{url}/api/v1/runs/today-1/stages/{STAGE}/criteria")[1]["items"]) == 3
        body = {"name": "a", "scope": "viewer"}
        assert ask(f"{url}/api/v1/tokens", method="POST", body=body)[0] == 201
        assert ask(f"{url}/api/v1/tokens", method="POST", body=body)[0] == 409


def test_a_run_with_texts_that_postgres_refuses_keeps_no_other_from_the_index(postgres, tmp_path):
    write_odd_run(tmp_path)
    asyncio.run(migrated(postgres))
    with served(ApiSettings(database=postgres.url(), storage=str(tmp_path), index_seconds=0.05)) as url:
        check_odd_run(f"{url}/api/v1")


def test_posts_of_one_key_at_once_have_one_effect_and_the_same_answer(postgres, tmp_path):
    write_run(tmp_path)
    database = SecretStr(postgres.new_database("posts"))
    asyncio.run(migrate_database(database))
    settings = ApiSettings(token=SecretStr(TOKEN), database=database, storage=str(tmp_path), index_seconds=0.05)
    with served(settings) as url:
        wait_for_rollouts(url, **bearer())
        check_posts_at_once(Caller(url), times=16)


def hostile_paths() -> Iterator[str]:
    """Every GET route with a character in one of its parameters that Postgres does not store."""
    good = {"run": "today-1", "stage": STAGE, "step": "1", "sample_id": "a", "digest": "0" * 64}
    for route in guarded_routes():
        if "GET" in route.methods and not route.path.endswith("/events"):
            names = re.findall(r"\{(\w+)\}", route.path)
            for hostile in names:
                given = {name: "a%00b" if name == hostile else good.get(name, "1") for name in names}
                yield route.path.format_map(given)
            given = {name: good.get(name, "1") for name in names}
            for field in route.dependant.query_params:
                yield f"{route.path.format_map(given)}?{field.alias}=a%00b"


def test_a_character_that_postgres_does_not_store_is_no_fault_of_the_service(postgres, tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    write_run(tmp_path)
    asyncio.run(migrated(postgres))
    with served(ApiSettings(database=postgres.url(), storage=str(tmp_path), index_seconds=0.05)) as url:
        wait_for(lambda: exchange(f"{url}/api/v1/runs/today-1")[0] == 200)
        paths = list(hostile_paths())
        assert len(paths) > 100
        statuses = {path: exchange(url + path)[0] for path in paths}
        assert {path: status for path, status in statuses.items() if status >= 500} == {}
        status, body = ask(f"{url}/api/v1/runs?search=a%00b")
        assert (status, "NUL (0x00)" in body["detail"]) == (422, True)


async def migrated(postgres: Postgres) -> None:
    await migrate_database(postgres.url())


async def migrate_database(url: SecretStr) -> None:
    database = Database(url.get_secret_value())
    await migrate(database)
    await database.close()
