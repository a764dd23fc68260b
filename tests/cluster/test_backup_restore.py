"""The commands of docs/operations.md: dump and copy, lose both, restore. An upgrade of 100,000 runs."""

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from operations_guide import blocks, carry_out
from promotion_storm import Installation
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer, exchange, served, wait_for
from sqlalchemy import create_engine
from test_api_postgres import Postgres
from test_api_postgres import postgres as postgres
from trained_run import STAGE, write_run

from rubricworks.errors import UserError
from rubricworks.platform_api.db import migrate as migration
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.project import Project
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.tracking import TrackingConfig, connect, registry

pytestmark = pytest.mark.cluster

RUNS = 100_000


def carry_out_block(heading: str, environment: dict[str, str], folder: Path) -> None:
    if shutil.which("pg_dump") is None:
        pytest.skip("pg_dump is not installed; tests/cluster/install.sh does it")
    (script,) = blocks()[heading]
    carry_out(script, environment, folder)


def test_what_was_dumped_and_lost_is_restored_and_promotions_go_on(postgres: Postgres, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    runs = tmp_path / "runs"
    write_run(runs)
    database = postgres.new_database("captions")
    settings = ApiSettings(
        database=SecretStr(database),
        storage=str(runs),
        token=SecretStr(TOKEN),
        index_seconds=0.05,
        project=Project(name="captions"),
    )
    migrate(database, "captions")
    with served(settings) as url:
        wait_for(lambda: ask(f"{url}/api/v1/runs/today-1", **bearer())[0] == 200)
        models = Installation(url, runs)
        number = models.request()
        before = exchange(f"{url}/api/v1/changes/export", **bearer())[2]
    (tmp_path / "project.yaml").write_text("name: captions")
    place = {
        "RUBRICWORKS_PROJECT": str(tmp_path / "project.yaml"),
        "DATABASE_URL": database,
        "BUCKET": str(runs),
        "BACKUP": str(tmp_path / "backup"),
        "NEW_DATABASE_URL": postgres.url(database="restored").get_secret_value(),
    }
    carry_out_block("Back up", place, tmp_path)
    with psycopg.connect(postgres.url().get_secret_value(), autocommit=True) as connection:
        connection.execute('DROP DATABASE "captions"')
    shutil.rmtree(runs)
    postgres.new_database("restored")
    runs = tmp_path / "restored"  # MLflow's client keeps files of the old folder open
    carry_out_block("Restore", place | {"BUCKET": str(runs)}, tmp_path)
    restored = settings.model_copy(update={"database": SecretStr(place["NEW_DATABASE_URL"]), "storage": str(runs)})
    with served(restored) as url:
        assert exchange(f"{url}/readyz", **bearer())[0] == 200
        wait_for(lambda: ask(f"{url}/api/v1/runs/today-1", **bearer())[0] == 200)
        assert exchange(f"{url}/api/v1/changes/export", **bearer())[2] == before
        assert ask(f"{url}/api/v1/caller", **bearer(models.tokens["runner"]))[1]["scope"] == "runner"
        models.url = f"{url}/api/v1"
        promotion = models.get(f"promotions/{number}")
        assert (promotion["state"], promotion["requested_by"]) == ("requested", "runner")
        assert models.post("approver-a", f"promotions/{number}/approve")[0] == 200
        connection = connect(TrackingConfig(), runs)
        assert registry.aliases(connection, models.model)[registry.CHAMPION] == promotion["version"]
        steps = ask(f"{url}/api/v1/runs/today-1/stages/{STAGE}/steps", **bearer())
        assert (steps[0], len(steps[1]) > 0) == (200, True)


def migrate(url: str, project: str | None = None) -> str:
    async def work() -> str:
        database = Database(url, has_deadline=False)
        try:
            return await migration.migrate(database, project)
        finally:
            await database.close()

    return asyncio.run(work())


def to_revision(url: str, revision: str) -> None:
    """Bring a database to the revision of an earlier version."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    config = Config()
    config.set_main_option("script_location", str(Path(migration.__file__).with_name("migrations")))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()


@pytest.fixture
def old_database(postgres: Postgres, request: pytest.FixtureRequest) -> str:
    """URL of a database of the first version, with 100,000 runs and an open session."""
    return fill(postgres.new_database(request.node.name[:40]))


def fill(url: str) -> str:
    to_revision(url, migration.REVISIONS[0])
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO runs (name, state, recipe, pipeline, started, changed, bytes, message, stages, progress, "
            "simulated, fault) SELECT 'run-' || n, 'done', 'r', 'p', now(), now() - n * interval '1 second', n, '', "
            "'[]', '[]', false, '' FROM generate_series(1, %s) n",
            (RUNS,),
        )
        connection.execute(
            "INSERT INTO tokens (name, scope, digest, created_at, created_by, expires_at) VALUES "
            "('old', 'viewer', repeat('0', 64), now(), 'ada', now() + interval '1 day')"
        )
        connection.execute(
            "INSERT INTO sessions (digest, token_id, expires_at) SELECT repeat('1', 64), id, now() + interval '1 hour' "
            "FROM tokens"
        )
    return url


def test_an_upgrade_of_100_000_runs_loses_none_and_the_version_before_goes_on(old_database: str) -> None:
    assert migrate(old_database, "captions") == migration.REVISIONS[-1]
    with psycopg.connect(old_database) as connection:
        assert connection.execute("SELECT count(*), sum(bytes), sum(dollars) FROM runs").fetchone() == (
            RUNS,
            RUNS * (RUNS + 1) // 2,
            None,
        )
        # The version before writes rows without the new columns meanwhile.
        connection.execute(
            "INSERT INTO sessions (digest, token_id, expires_at) SELECT repeat('2', 64), id, now() FROM tokens"
        )
        connection.execute("UPDATE runs SET message = 'seen' WHERE name = 'run-7'")
        assert connection.execute("SELECT count(*) FROM sessions WHERE opened_at IS NOT NULL").fetchone() == (2,)
    assert migrate(old_database, "captions") == migration.REVISIONS[-1]


@pytest.fixture
def small_disk(postgres: Postgres) -> Iterator[Path]:
    """A tablespace's folder on a disk of 240 MB."""
    folder = postgres.data.parent / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=240m", "none", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a disk of its own needs the right to mount one")
    try:
        (folder / "tables").mkdir()
        shutil.chown(folder / "tables", postgres.user)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_undoes_a_migration_and_with_room_it_is_carried_out(postgres: Postgres, small_disk: Path) -> None:
    with psycopg.connect(postgres.url().get_secret_value(), autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{small_disk / 'tables'}'")
        connection.execute("CREATE DATABASE crowded TABLESPACE small")
    url = fill(postgres.url(database="crowded").get_secret_value())
    rest = small_disk / "rest"
    with rest.open("wb") as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
            file.flush()
    with pytest.raises(UserError) as refused:
        migrate(url, "captions")
    assert "No space left on device" in str(refused.value)
    assert "make room on it" in str(refused.value)
    assert "\n" not in str(refused.value)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (migration.REVISIONS[0],)
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (RUNS,)
        columns = "SELECT count(*) FROM information_schema.columns WHERE column_name IN ('dollars', 'person')"
        assert connection.execute(columns).fetchone() == (0,)
    rest.unlink()
    assert migrate(url, "captions") == migration.REVISIONS[-1]
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (RUNS,)
    with psycopg.connect(postgres.url().get_secret_value(), autocommit=True) as connection:
        connection.execute("DROP DATABASE crowded WITH (FORCE)")
        connection.execute("DROP TABLESPACE small")


def test_a_migration_that_fails_half_way_changes_nothing_and_is_carried_out_later(old_database: str) -> None:
    """The whole migration is one transaction."""
    with psycopg.connect(old_database, autocommit=True) as connection:
        connection.execute("CREATE TABLE installation (project int)")  # in the way of a later statement
    with pytest.raises(Exception, match="installation"):
        migrate(old_database)
    with psycopg.connect(old_database, autocommit=True) as connection:
        columns = "SELECT count(*) FROM information_schema.columns WHERE column_name IN ('dollars', 'person')"
        assert connection.execute(columns).fetchone() == (0,)
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (migration.REVISIONS[0],)
        connection.execute("DROP TABLE installation")
    assert migrate(old_database) == migration.REVISIONS[-1]
