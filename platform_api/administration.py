"""Administration of an installation on its own machine: migrations, tokens, deletions, in the server's database."""

import contextlib
import getpass
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from sqlalchemy.exc import DatabaseError

from rubricworks.errors import UserError
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.faults import fault_of, to_user_error
from rubricworks.platform_api.db.migrate import NewerDatabase, migrate
from rubricworks.platform_api.pagination import PageRequest
from rubricworks.platform_api.problems import Problem
from rubricworks.platform_api.schemas.access import TokenBody
from rubricworks.platform_api.services.access import tokens
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.platform_api.services.run_rows import prune_rows
from rubricworks.platform_api.services.source_removal import remove_source
from rubricworks.platform_api.settings import make_database_folder, settings_from_environment
from rubricworks.runs.store import open_run_store

_ALL = PageRequest(limit=1_000_000)


async def migrate_database(runs: str) -> str:
    """Bring the database to the newest revision and return that; a newer version's stays as it is.

    Raises:
        UserError: the database cannot be reached.
    """
    # It may wait for another pod's, and its statements read whole tables.
    async with _database(runs, has_deadline=False) as (database, project):
        try:
            return await migrate(database, project)
        except NewerDatabase as newer:  # after a rollback
            return f"{newer.revision} of a newer version; this version works on it"


async def create_token(runs: str, name: str, scope: str, days: int) -> str:
    """Create a token and return its secret.

    Raises:
        UserError: the name is taken.
    """
    async with _database(runs) as (database, project):
        await _migrate_sqlite(database, project)
        async with database.session() as session:
            _, secret = await tokens.create_token(session, _operator(), name, scope, days)
    return secret


async def list_tokens(runs: str) -> Sequence[TokenBody]:
    """All tokens, the newest first."""
    async with _database(runs) as (database, project):
        await _migrate_sqlite(database, project)
        async with database.session() as session:
            return (await tokens.list_tokens(session, _ALL)).items


async def revoke_token(runs: str, name: str) -> None:
    """Revoke a token.

    Raises:
        UserError: there is no such token.
    """
    async with _database(runs) as (database, project):
        await _migrate_sqlite(database, project)
        async with database.session() as session:
            await tokens.revoke_token(session, _operator(), name)


async def prune_tables(runs: str, older_than: timedelta, *, dry_run: bool) -> dict[str, int]:
    """Delete old rows that nothing needs; return their number by table."""
    async with _database(runs, has_deadline=False) as (database, project):
        await _migrate_sqlite(database, project)
        async with database.session() as session:
            return dict(await prune_rows(session, older_than, dry_run=dry_run))


async def forget_source(runs: str, source: str, *, dry_run: bool) -> AsyncIterator[str]:
    """Delete one source's data everywhere; yield the report line by line.

    Raises:
        UserError: something is in the way, or a server does not answer; what the report has is deleted.
    """
    async with _database(runs, has_deadline=False) as (database, project):
        await _migrate_sqlite(database, project)
        storage = settings_from_environment(runs).storage or runs
        async for line in remove_source(open_run_store(storage), database, source, dry_run=dry_run):
            yield line


@asynccontextmanager
async def _database(runs: str, *, has_deadline: bool = True) -> AsyncIterator[tuple[Database, str | None]]:
    settings = settings_from_environment(runs)
    make_database_folder(settings)
    database = Database(settings.database_url, has_deadline=has_deadline)
    try:
        if database.engine.url.database in (None, ":memory:"):
            raise UserError("runs in a bucket have no database file: set RUBRICWORKS_DATABASE_URL, as for the server")
        yield database, settings.project_name
    except Problem as problem:
        raise UserError(problem.detail) from problem
    except DatabaseError as error:
        if fault_of(error) is None:
            raise
        raise to_user_error(error, database.engine.url) from error
    finally:
        await database.close()


async def _migrate_sqlite(database: Database, project: str | None) -> None:
    if database.is_sqlite:
        with contextlib.suppress(NewerDatabase):  # the server works on it, too
            await migrate(database, project)


def _operator() -> Principal:
    return Principal(getpass.getuser(), "admin")
