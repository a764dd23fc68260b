"""Migrations: the database is brought to the newest revision before the service listens, or by a Job of the chart.

Each revision adds before a later one removes (expand, contract), so that the version before still works beside it.
Alembic takes a quarter of a second to import, so a database of the newest revision is known without it.
"""

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DatabaseError

from rubricworks.errors import UserError
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.faults import to_user_error

_SCRIPTS = Path(__file__).with_name("migrations")
REVISIONS = sorted(path.name[1:5] for path in (_SCRIPTS / "versions").glob("r[0-9]*.py"))
"""All revisions, the first one first, by the names of their files."""
_LOCK = 7_278_364_101
"""Key of the lock under which Postgres is migrated: two pods that start together do not both migrate."""


class NewerDatabase(UserError):
    """A newer version has migrated the database, in which this one finds its tables as long as none is removed."""

    def __init__(self, revision: str) -> None:
        super().__init__(
            f"the database is at revision {revision}, which this version does not know: a newer version has migrated "
            "it; install that version, or name another database by RUBRICWORKS_DATABASE_URL"
        )
        self.revision = revision


async def migrate(database: Database) -> str:
    """Bring the database to the newest revision and return that.

    Raises:
        NewerDatabase: a newer version of Rubricworks has migrated it.
        UserError: the database cannot be reached, or is another program's.
    """
    try:
        async with database.engine.begin() as connection:
            if not database.is_sqlite:
                await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            return await connection.run_sync(_upgrade)
    except DatabaseError as error:
        raise to_user_error(error, database.engine.url) from error


def check_revision(connection: Connection) -> str:
    """Check that the tables of this version are there, and return the revision. A newer version's hold them as well.

    Raises:
        UserError: they are not.
    """
    now = _current_revision(connection)
    if now is None or now in REVISIONS[:-1]:
        raise UserError(f"the database is at revision {now or 'none'}: migrate it with: rubricworks server migrate")
    if now != REVISIONS[-1] and not _is_newer(now):
        raise _foreign(now)
    return now


def _is_newer(revision: str) -> bool:
    return len(revision) == len(REVISIONS[-1]) and revision.isdecimal() and revision > REVISIONS[-1]


def _foreign(revision: str) -> UserError:
    return UserError(
        f"the database is at revision {revision}, which is none of Rubricworks: another program uses it, or a state "
        "of Rubricworks from before its first release; name another database by RUBRICWORKS_DATABASE_URL, or delete "
        "the file"
    )


def _current_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return revision


def _upgrade(connection: Connection) -> str:
    now = _current_revision(connection)
    if now == REVISIONS[-1]:
        return now
    if now is not None and now not in REVISIONS:
        raise NewerDatabase(now) if _is_newer(now) else _foreign(now)
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    attributes: dict[str, Any] = config.attributes
    attributes["connection"] = connection
    command.upgrade(config, "head")
    return REVISIONS[-1]
