"""Settings of the service, read from the environment and checked before it listens."""

import os

from pydantic import BaseModel, ConfigDict, SecretStr
from sqlalchemy import Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from rubricworks.errors import UserError

_SHORTEST_TOKEN = 16
_CONNECT_SECONDS = 5


class ApiSettings(BaseModel):
    """Settings of the service; secrets stay out of reprs and logs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    database: SecretStr | None = None
    """RUBRICWORKS_DATABASE_URL: a SQLAlchemy URL, `postgresql://user:password@host/name` or `sqlite:///file`."""
    storage: str | None = None
    """RUBRICWORKS_STORAGE: storage of the runs, `s3://bucket/prefix` or a folder."""
    token: SecretStr | None = None
    """RUBRICWORKS_API_TOKEN: token that callers send as `Authorization: Bearer …`."""
    revision: str = "unknown"
    """RUBRICWORKS_REVISION: git revision of the image."""


def settings_from_environment() -> ApiSettings:
    """Read the settings from the environment; an empty variable counts as not set.

    Raises:
        UserError: the token is too short.
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
    """Create the database engine, which connects on first use; None if no database is set.

    Raises:
        UserError: the URL is invalid, or its driver is not installed.
    """
    if settings.database is None:
        return None
    try:
        url = make_url(settings.database.get_secret_value())
        timeout = {"connect_timeout": _CONNECT_SECONDS} if url.get_backend_name() == "postgresql" else {}
        return create_engine(url, pool_pre_ping=True, connect_args=timeout)
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
