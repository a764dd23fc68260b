"""The service behind PgBouncer, which gives each transaction another connection, and on a Postgres that froze."""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from object_store import free_port
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer, exchange, served, wait_for, wait_for_rollouts
from test_api_postgres import IN_URL, PASSWORD, Postgres, migrate_database, postgres
from trained_run import STAGE, write_run

from rubricworks.platform_api.db import postgres as deadlines
from rubricworks.platform_api.settings import ApiSettings

pytestmark = pytest.mark.cluster
__all__ = ["postgres"]

_CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={postgres} user=service password='{password}'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 6
server_reset_query =
"""


@contextmanager
def pgbouncer(folder: Path, server: Postgres) -> Iterator[int]:
    """Port of a pooler in front of a server. It refuses to run as root."""
    if shutil.which("pgbouncer") is None:
        pytest.skip("not installed: pgbouncer; run tests/cluster/install.sh")
    port, configuration = free_port(), server.data.parent / "pgbouncer.ini"
    configuration.write_text(_CONFIGURATION.format(postgres=server.port, port=port, password=PASSWORD))
    user = server.user if os.geteuid() == 0 else None
    with (folder / "pgbouncer.log").open("wb") as log:
        process = subprocess.Popen(
            ["pgbouncer", str(configuration)], user=user, stdout=log, stderr=log, cwd=server.data.parent
        )
    try:
        url = f"postgresql://service:{IN_URL}@127.0.0.1:{port}/postgres"

        def answers() -> bool:
            assert process.poll() is None, (folder / "pgbouncer.log").read_text()
            try:
                psycopg.connect(url, connect_timeout=5).close()
            except psycopg.OperationalError:
                return False
            return True

        wait_for(answers)
        yield port
    finally:
        process.terminate()
        process.wait()


def test_every_request_is_answered_behind_a_pooler_of_transactions(postgres, tmp_path):
    runs = tmp_path / "runs"
    write_run(runs)
    database = SecretStr(postgres.new_database("pooled"))
    asyncio.run(migrate_database(database))
    with pgbouncer(tmp_path, postgres) as port:
        pooled = SecretStr(database.get_secret_value().replace(f":{postgres.port}/", f":{port}/"))
        settings = ApiSettings(token=SecretStr(TOKEN), database=pooled, storage=str(runs), index_seconds=0.05)
        with served(settings) as url:
            wait_for_rollouts(url, **bearer())
            groups = f"runs/today-1/stages/{STAGE}/groups"
            paths = [
                "runs",
                "runs/today-1",
                groups,
                f"{groups}/1/a",
                "tokens",
                "changes",
                "dead-letters",
                "leaderboard",
            ]

            def status(path: str) -> tuple[str, int]:
                return path, exchange(f"{url}/api/v1/{path}", **bearer())[0]

            with ThreadPoolExecutor(16) as pool:
                answers = list(pool.map(status, paths * 48))
    assert [answer for answer in answers if answer[1] >= 500] == []
    assert len(answers) == 384


def processes_of(server: Postgres) -> list[int]:
    """The server's process, and its children."""
    first = int((server.data / "postmaster.pid").read_text().split()[0])
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    return [first, *(process for process, parent in parents.items() if parent == first)]


def test_a_frozen_postgres_is_told_to_callers_and_used_again_once_it_goes_on(postgres, tmp_path, monkeypatch):
    monkeypatch.setattr(deadlines, "_ANSWER_SECONDS", 1.0)
    database = SecretStr(postgres.new_database("frozen"))
    asyncio.run(migrate_database(database))
    with served(ApiSettings(token=SecretStr(TOKEN), database=database)) as url:
        assert ask(f"{url}/api/v1/tokens", **bearer())[0] == 200
        stopped = processes_of(postgres)
        try:
            for process in stopped:
                os.kill(process, signal.SIGSTOP)
            with ThreadPoolExecutor(40) as pool:
                answers = list(pool.map(lambda _: ask(f"{url}/api/v1/tokens", **bearer()), range(40)))
            assert {status for status, _ in answers} == {503}
            assert {body["detail"].partition(";")[0] for _, body in answers} <= {
                "the database does not answer",
                "all connections to the database are in use",
            }
            assert exchange(f"{url}/healthz")[0] == 200
            assert ask(f"{url}/readyz", **bearer())[0] == 503
        finally:
            for process in stopped:
                os.kill(process, signal.SIGCONT)
        deadline = time.monotonic() + 300
        while (answer := ask(f"{url}/api/v1/tokens", **bearer()))[0] != 200:
            assert time.monotonic() < deadline, answer
            time.sleep(0.2)
