"""Migrations make the tables that the code reads, and refuse a database of a newer version."""

import asyncio
import sqlite3
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from rubricworks.errors import UserError
from rubricworks.platform_api.db import migrate as migration
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.migrate import REVISIONS, migrate
from rubricworks.platform_api.db.tables import Table


def in_database(url, work):
    async def run():
        database = Database(url)
        try:
            return await work(database)
        finally:
            await database.close()

    return asyncio.run(run())


def test_migrations_and_tables_are_the_same_and_a_second_time_changes_nothing(tmp_path):
    async def work(database):
        revisions = [await migrate(database), await migrate(database)]
        async with database.engine.connect() as connection:
            difference = await connection.run_sync(
                lambda plain: compare_metadata(MigrationContext.configure(plain), Table.metadata)
            )
        return revisions, difference

    (first, second), difference = in_database(f"sqlite:///{tmp_path}/x.db", work)
    assert first == second
    assert difference == []
    scripts = ScriptDirectory(str(Path(migration.__file__).with_name("migrations"))).walk_revisions()
    assert [script.revision for script in scripts][::-1] == REVISIONS, "files are named by their revisions"


def test_a_database_of_a_newer_version_is_refused(tmp_path):
    async def work(database):
        await migrate(database)
        async with database.engine.begin() as connection:
            await connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
        await migrate(database)

    with pytest.raises(UserError, match="revision 9999, which this version does not know"):
        in_database(f"sqlite:///{tmp_path}/x.db", work)


def test_a_database_from_before_the_first_release_is_refused_in_one_line(tmp_path):
    async def work(database):
        await migrate(database)
        async with database.engine.begin() as connection:
            await connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0014'")
        await migrate(database)

    with pytest.raises(UserError, match=r"revision 0014, which is none of Rubricworks.*before its first release"):
        in_database(f"sqlite:///{tmp_path}/x.db", work)


def test_a_file_that_is_no_database_is_told(tmp_path):
    (tmp_path / "x.db").write_bytes(b"no database" * 100)
    with pytest.raises(UserError, match="cannot be opened: file is not a database"):
        in_database(f"sqlite:///{tmp_path}/x.db", migrate)


def test_a_migration_that_ends_half_way_is_undone_and_carried_out_later(tmp_path):
    """A full disk ends a statement as any other fault does; a table that is in the way ends the last one."""
    file = tmp_path / "x.db"
    url = f"sqlite:///{file}"
    to_revision(url, "0017")  # the next one makes the table run_tags
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE run_tags (x INTEGER)")
        before = list(database.iterdump())
    with pytest.raises(UserError, match="run_tags already exists"):
        in_database(url, migrate)
    with sqlite3.connect(file) as database:
        assert list(database.iterdump()) == before
        database.execute("DROP TABLE run_tags")
    assert in_database(url, migrate) == REVISIONS[-1]


def to_revision(url, revision):
    """Bring an empty database to the revision of an earlier version."""
    config = Config()
    config.set_main_option("script_location", str(Path(migration.__file__).with_name("migrations")))
    engine = create_engine(url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()
