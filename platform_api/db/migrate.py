"""Migrations: the database is brought to the newest revision before the service listens, or by a Job of the chart.

Each revision adds before a later one removes (expand, contract), so that the version before still works beside it.
"""

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import DatabaseError

from rubricworks.errors import UserError
from rubricworks.platform_api.db.engine import Database

_LOCK = 7_278_364_101
"""Key of the lock under which Postgres is migrated: two pods that start together do not both migrate."""


async def migrate(database: Database) -> str:
    """Bring the database to the newest revision and return that.

    Raises:
        UserError: the database cannot be reached, or a newer version of Rubricworks has migrated it.
    """
    try:
        async with database.engine.begin() as connection:
            if not database.is_sqlite:
                await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            return await connection.run_sync(_upgrade)
    except DatabaseError as error:
        reason, *_ = str(error.orig or error).strip().splitlines() or [type(error).__name__]
        url = database.engine.url.render_as_string(hide_password=True)
        raise UserError(f"the database {url} cannot be opened: {reason}") from error


def check_revision(connection: Connection) -> None:
    """Check that the tables of this version are there. A newer version's hold them as well.

    Raises:
        UserError: they are not.
    """
    now = MigrationContext.configure(connection).get_current_revision()
    scripts = _scripts(connection)
    before = {script.revision for script in scripts.walk_revisions()} - {scripts.get_current_head()}
    if now is None or now in before:
        raise UserError(f"the database is at revision {now or 'none'}: migrate it with: rubricworks server migrate")


def _scripts(connection: Connection) -> ScriptDirectory:
    return ScriptDirectory.from_config(_config(connection))


def _upgrade(connection: Connection) -> str:
    config = _config(connection)
    scripts = _scripts(connection)
    known = {script.revision for script in scripts.walk_revisions()}
    now = MigrationContext.configure(connection).get_current_revision()
    if now is not None and now not in known:
        raise UserError(
            f"the database is at revision {now}, which this version does not know: a newer version has migrated it; "
            "install that version, or name another database by RUBRICWORKS_DATABASE_URL"
        )
    command.upgrade(config, "head")
    return str(scripts.get_current_head())


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    config.set_main_option("path_separator", "os")
    attributes: dict[str, Any] = config.attributes
    attributes["connection"] = connection
    return config
