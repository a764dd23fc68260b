"""A database of an earlier revision with rows in every table, and what must hold once it is migrated.

Expand, contract: while pods are replaced, the version before works on beside the new one. So after the upgrade its
statements still succeed, with the columns that it knows, and the new version's code reads what they wrote.
"""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from rubricworks.platform_api.db import migrate as migration
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.tables import Table

_SCRIPTS = str(Path(migration.__file__).with_name("migrations"))
_AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)

REVISIONS = [script.revision for script in ScriptDirectory(_SCRIPTS).walk_revisions()][::-1]
"""All revisions, the first one first."""


async def check_upgrade(url: str, revision: str, *, at_once: int) -> None:
    """Migrate a database from a revision, and check its old rows, new rows of both versions, and its tables.

    Args:
        url: an empty database.
        at_once: services that migrate it at the same moment.
    """
    databases = [Database(url) for _ in range(at_once)]
    async with databases[0].engine.begin() as connection:
        known = await connection.run_sync(upgrade, revision)
        for number in (1, 2):
            await connection.run_sync(_add_rows, known, number)
        before = await connection.run_sync(_rows, known)
    assert all(len(rows) == 2 for rows in before.values())
    assert set(await asyncio.gather(*map(migration.migrate, databases))) == {REVISIONS[-1]}
    async with databases[0].engine.begin() as connection:
        assert await connection.run_sync(_rows, known) == before, "rows of before"
        await connection.run_sync(_add_rows, known, 3)
        assert await connection.run_sync(_differences) == []
    async with databases[0].session() as session:
        for mapper in Table.registry.mappers:
            known_rows = 3 if mapper.local_table.name in known.tables else 0
            assert len((await session.scalars(sa.select(mapper.class_))).all()) == known_rows
    for database in databases:
        await database.close()


def upgrade(connection: sa.Connection, revision: str) -> sa.MetaData:
    """Bring an empty database to a revision; return the tables as that revision has them."""
    config = Config()
    config.set_main_option("script_location", _SCRIPTS)
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
    known = sa.MetaData()
    known.reflect(connection)
    known.remove(known.tables["alembic_version"])
    return known


def _add_rows(connection: sa.Connection, known: sa.MetaData, number: int) -> None:
    """Write one row into each table, with every column that the revision knows and no other."""
    keys: dict[str, Any] = {}
    for table in known.sorted_tables:
        values = {
            column.name: keys[next(iter(column.foreign_keys)).column.table.name]
            if column.foreign_keys
            else _value(column, number)
            for column in table.columns
            if column is not table.autoincrement_column
        }
        key = connection.execute(sa.insert(table).values(values)).inserted_primary_key
        assert key is not None
        keys[table.name] = key[0]


def _value(column: "sa.Column[Any]", number: int) -> Any:
    match column.type:
        case sa.Integer():
            return number
        case sa.Float():
            return number / 2
        case sa.DateTime():
            return _AT
        case sa.JSON():
            return {"n": [number, None, "ü"]}
    return f"{column.name}-{number}"


def _rows(connection: sa.Connection, known: sa.MetaData) -> dict[str, list[Any]]:
    return {
        table.name: sorted(map(tuple, connection.execute(sa.select(table))), key=str) for table in known.sorted_tables
    }


def _differences(connection: sa.Connection) -> list[Any]:
    changes: list[Any] = compare_metadata(MigrationContext.configure(connection), Table.metadata)
    return changes
