"""Administration of an installation on its own machine: migrations and tokens, in the database that the server uses."""

import contextlib
import getpass
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

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
from rubricworks.platform_api.settings import make_database_folder, settings_from_environment

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
