"""Settings of the service, read from the environment and checked before it listens."""

import os

from pydantic import BaseModel, ConfigDict, SecretStr
from sqlalchemy import Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from rubricworks.errors import UserError

_SHORTEST_TOKEN = 16
_CONNECT_SECONDS = 5


class ApiSettings(BaseModel):
    """Settings of one process. Secrets stay out of reprs and logs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    database: SecretStr | None = None
    """RUBRICWORKS_DATABASE_URL: a SQLAlchemy URL, `postgresql://user:password@host/name` or `sqlite:///file`."""
    storage: str | None = None
    """RUBRICWORKS_STORAGE: where runs lie, `s3://bucket/prefix` or a folder."""
    token: SecretStr | None = None
    """RUBRICWORKS_API_TOKEN: what callers send as `Authorization: Bearer …`."""
    revision: str = "unknown"
    """RUBRICWORKS_REVISION: the git revision that an image was built from."""


def settings_from_environment() -> ApiSettings:
    """The settings that the environment holds; a variable that is empty counts as not set.

    Raises:
        UserError: the token is too short to be one.
    """
    token = _variable("RUBRICWORKS_API_TOKEN")
    if token and len(token) < _SHORTEST_TOKEN:
        raise UserError(
            f"RUBRICWORKS_API_TOKEN has {len(token)} characters; a token needs at least {_SHORTEST_TOKEN}: "
            "make one with `openssl rand -hex 32`"
        )
    database = _variable("RUBRICWORKS_DATABASE_URL")
    return ApiSettings(
        database=SecretStr(database) if database else None,
        storage=_variable("RUBRICWORKS_STORAGE"),
        token=SecretStr(token) if token else None,
        revision=_variable("RUBRICWORKS_REVISION") or "unknown",
    )


def open_database(settings: ApiSettings) -> Engine | None:
    """The engine of the database, which connects when it is first asked; None where none is set.

    Raises:
        UserError: the URL cannot be read, or the driver that it names is not installed.
    """
    if settings.database is None:
        return None
    try:
        url = make_url(settings.database.get_secret_value())
        waiting = {"connect_timeout": _CONNECT_SECONDS} if url.get_backend_name() == "postgresql" else {}
        return create_engine(url, pool_pre_ping=True, connect_args=waiting)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise UserError(
            f"RUBRICWORKS_DATABASE_URL: there is no database driver for {url.drivername!r}; "
            "write postgresql+psycopg://user:password@host/name"
        ) from error
    except (ArgumentError, TypeError, ValueError) as error:  # its text may repeat the URL, password and all
        raise UserError(
            "RUBRICWORKS_DATABASE_URL is no SQLAlchemy URL; write postgresql+psycopg://user:password@host/name, "
            "with special characters of the password as %XX"
        ) from error


def _variable(name: str) -> str | None:
    return os.environ.get(name, "").strip() or None
