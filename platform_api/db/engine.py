"""Connections to the database: SQLite for one person on one machine, Postgres for everybody else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.pool import StaticPool

from rubricworks.errors import UserError

_POOL_SECONDS = 5
"""Wait for a connection while all are in use, as a frozen server may hold all of them; then the answer is 503."""
_ASYNC_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+psycopg"}
"""Drivers for URLs that name none."""


class Database:
    """Sessions of one database."""

    def __init__(self, url: str, *, has_deadline: bool = True) -> None:
        """
        Args:
            has_deadline: whether statements on Postgres have one.
        Raises:
            UserError: the URL is invalid, or its driver is not installed.
        """
        self.engine = open_engine(url, has_deadline=has_deadline)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        self._sessions = async_sessionmaker(self.engine, expire_on_commit=False)

    @asynccontextmanager
    async def session(self, within: AsyncSession | None = None) -> AsyncIterator[AsyncSession]:
        """A session that commits at the end of the block, and rolls back if it raises.

        Args:
            within: a session to use instead, which whoever opened it commits.
        """
        if within is not None:
            yield within
            return
        async with self._sessions() as session, session.begin():
            yield session

    async def close(self) -> None:
        """Close all connections."""
        await self.engine.dispose()


def open_engine(url: str, *, has_deadline: bool = True) -> AsyncEngine:
    """Create an engine, which connects on first use.

    Args:
        has_deadline: whether statements on Postgres have one.
    Raises:
        UserError: the URL is invalid, or its driver is not installed.
    """
    try:
        parsed = async_url(make_url(url))
        is_postgres = parsed.get_backend_name() == "postgresql"
        options: dict[str, Any] = {}
        if is_postgres:
            options = {"pool_size": 10, "max_overflow": 10, "pool_timeout": _POOL_SECONDS}
            options["connect_args"] = _postgres_options(parsed)
            if has_deadline:
                options["connect_args"]["async_creator_fn"] = _punctual_connect
        elif parsed.database in (None, "", ":memory:"):
            options = {"poolclass": StaticPool}  # each connection would be a database of its own
        else:
            options["pool_timeout"] = _POOL_SECONDS
        engine = create_async_engine(parsed, pool_pre_ping=is_postgres, **options)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise UserError(
            f"RUBRICWORKS_DATABASE_URL: there is no database driver for {make_url(url).drivername!r}; "
            "write postgresql+psycopg://user:password@host/name"
        ) from error
    except (ArgumentError, TypeError, ValueError) as error:  # its text may repeat the URL, password and all
        raise UserError(
            "RUBRICWORKS_DATABASE_URL is no SQLAlchemy URL; write postgresql+psycopg://user:password@host/name, "
            "with special characters of the password as %XX"
        ) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    return engine


def open_probe(database: Database) -> Engine:
    """Create a blocking engine of a database, for the checks of readiness, which run in a thread."""
    url = database.engine.url
    if database.is_sqlite:
        return create_engine(url.set(drivername="sqlite"))
    return create_engine(url, pool_pre_ping=True, pool_size=1, connect_args=_postgres_options(url))


def async_url(url: URL) -> URL:
    """Add the asynchronous driver to a URL without a driver."""
    return url.set(drivername=_ASYNC_DRIVERS.get(url.drivername, url.drivername))


def _postgres_options(url: URL) -> dict[str, Any]:
    from rubricworks.platform_api.db.postgres import OPTIONS

    return {name: value for name, value in OPTIONS.items() if name not in url.query}


async def _punctual_connect(*arguments: Any, **options: Any) -> Any:
    from rubricworks.platform_api.db.postgres import PunctualConnection

    return await PunctualConnection.connect(*arguments, **options)


def _prepare_sqlite(connection: Any, _: object) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "busy_timeout=5000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
