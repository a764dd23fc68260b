"""Migrations make the tables that the code reads, and refuse a database of a newer version."""

import asyncio
from datetime import UTC, datetime

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from migrated_rows import REVISIONS, check_upgrade, upgrade
from sqlalchemy import insert, select

from rubricworks.errors import UserError
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.migrate import REVISIONS as NAMED
from rubricworks.platform_api.db.migrate import migrate
from rubricworks.platform_api.db.tables import Change, Promotion, Table


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
    assert NAMED == REVISIONS, "files are named by their revisions, as Alembic orders them"


@pytest.mark.slow
@pytest.mark.parametrize("revision", REVISIONS)
def test_rows_of_each_revision_stay_and_its_version_still_writes(tmp_path, revision):
    asyncio.run(check_upgrade(f"sqlite:///{tmp_path}/x.db", revision, at_once=1))


def test_of_several_open_requests_for_a_model_one_stays_and_the_others_are_told_of(tmp_path):
    # Model, kind, state; the version is the number of the row.
    rows = [
        ("twice", "promotion", "requested"),
        ("twice", "promotion", "requested"),
        ("deciding", "promotion", "requested"),
        ("deciding", "promotion", "applying"),
        ("rolled-back", "promotion", "requested"),
        ("rolled-back", "rollback", "confirmed"),
        ("rolled-back", "promotion", "requested"),
        ("one", "rollback", "failed"),
        ("one", "promotion", "requested"),
        ("none", "promotion", "rejected"),
    ]

    async def work(database):
        async with database.engine.begin() as connection:
            known = await connection.run_sync(upgrade, "0006")
            for number, (model, kind, state) in enumerate(rows, 1):
                values = {"model": model, "version": number, "kind": kind, "state": state, "decision": ""}
                texts = dict.fromkeys(("digest", "gate", "reason", "requested_by"), "")
                values |= texts | {"requested_at": datetime.now(UTC)}
                await connection.execute(insert(known.tables["promotions"]).values(values))
        await migrate(database)
        async with database.session() as session:
            promotions = {one.id: one.state for one in await session.scalars(select(Promotion))}
            changes = {(one.action, one.subject) for one in await session.scalars(select(Change))}
        return promotions, changes

    promotions, changes = in_database(f"sqlite:///{tmp_path}/x.db", work)
    ended = {2, 3, 5}
    assert promotions == {
        number: "failed" if number in ended else state for number, (_, _, state) in enumerate(rows, 1)
    }
    assert changes == {("promotion.fail", f"{rows[number - 1][0]}/{number}") for number in ended}


def test_a_database_of_a_newer_version_is_refused(tmp_path):
    async def work(database):
        await migrate(database)
        async with database.engine.begin() as connection:
            await connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
        await migrate(database)

    with pytest.raises(UserError, match="revision 9999, which this version does not know"):
        in_database(f"sqlite:///{tmp_path}/x.db", work)


def test_a_file_that_is_no_database_is_told(tmp_path):
    (tmp_path / "x.db").write_bytes(b"no database" * 100)
    with pytest.raises(UserError, match="cannot be opened: file is not a database"):
        in_database(f"sqlite:///{tmp_path}/x.db", migrate)
