"""Migrations: the database is brought to the newest revision before the service listens, or by a Job of the chart.

Each revision adds before a later one removes (expand, contract), so that the version before still works beside it.
Alembic takes a quarter of a second to import, so a database of the newest revision is known without it.

A database belongs to one project, whose name it has from its first migration on: another project's service, with its
own callers and store, does not work on it.
"""

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert, inspect, select, text
from sqlalchemy.exc import DatabaseError

from rubricworks.errors import UserError
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.faults import to_user_error
from rubricworks.platform_api.db.tables import Installation

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


async def migrate(database: Database, project: str | None = None) -> str:
    """Bring the database to the newest revision and return that.

    Args:
        project: name of the installation's project, to which a new database belongs from now on.
    Raises:
        NewerDatabase: a newer version of Rubricworks has migrated it.
        UserError: the database cannot be reached, or is another program's or project's.
    """
    try:
        async with database.engine.begin() as connection:
            if not database.is_sqlite:
                await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            return await connection.run_sync(_upgrade, project)
    except DatabaseError as error:
        raise to_user_error(error, database.engine.url) from error


def check_revision(connection: Connection, project: str | None = None) -> str:
    """Check that the tables of this version are there, and return the revision. A newer version's hold them as well.

    Raises:
        UserError: they are not, or are another project's.
    """
    now = _current_revision(connection)
    if now is None or now in REVISIONS[:-1]:
        raise UserError(f"the database is at revision {now or 'none'}: migrate it with: rubricworks server migrate")
    if now != REVISIONS[-1] and not _is_newer(now):
        raise _foreign(now)
    check_owner(connection, project)
    return now


def check_owner(connection: Connection, project: str | None) -> bool:
    """Return True if the database belongs to the project, False if it belongs to none yet.

    Raises:
        UserError: it belongs to another project.
    """
    owner: str | None = connection.scalar(select(Installation.project))
    if owner is not None and owner != project:
        this = f"is the project {project}" if project else "has no project (RUBRICWORKS_PROJECT)"
        raise UserError(
            f"the database belongs to the project {owner}, and this service {this}: name its own database by "
            "RUBRICWORKS_DATABASE_URL"
        )
    return owner is not None


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


def _upgrade(connection: Connection, project: str | None) -> str:
    now = _current_revision(connection)
    if now != REVISIONS[-1]:
        _run_migrations(connection, now)
    if not check_owner(connection, project) and project is not None:
        connection.execute(insert(Installation).values(project=project))
    return REVISIONS[-1]


def _run_migrations(connection: Connection, now: str | None) -> None:
    if now is not None and now not in REVISIONS:
        raise NewerDatabase(now) if _is_newer(now) else _foreign(now)
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    attributes: dict[str, Any] = config.attributes
    attributes["connection"] = connection
    if connection.dialect.name == "sqlite":  # its driver begins none for DDL, and half a migration is never mended
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    command.upgrade(config, "head")
