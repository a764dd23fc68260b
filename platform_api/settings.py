"""Settings of the service, read from the environment and checked before it listens."""

import os
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, SecretStr

from rubricworks.errors import UserError
from rubricworks.platform_api.project import Project, load_project
from rubricworks.storage import is_remote, local_path
from rubricworks.storage.files import sqlite_url

_SHORTEST_TOKEN = 16
DATABASE_FILE = "platform.db"


class ApiSettings(BaseModel):
    """Settings of the service; secrets stay out of reprs and logs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    database: SecretStr | None = None
    """RUBRICWORKS_DATABASE_URL: a SQLAlchemy URL, `postgresql://user:password@host/name` or `sqlite:///file`."""
    storage: str | None = None
    """RUBRICWORKS_STORAGE: storage of the runs, `s3://bucket/prefix` or a folder."""
    token: SecretStr | None = None
    """RUBRICWORKS_API_TOKEN: token that callers send as `Authorization: Bearer …`; it is an admin's."""
    revision: str = "unknown"
    """RUBRICWORKS_REVISION: git revision of the image."""
    webhook_url: str | None = None
    """RUBRICWORKS_WEBHOOK_URL: the consumer of models, which is notified of every promotion."""
    webhook_secret: SecretStr | None = None
    """RUBRICWORKS_WEBHOOK_SECRET: key of the messages' signatures."""
    webhook_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    """RUBRICWORKS_WEBHOOK_NETWORKS: networks beyond the internet that the consumer may be in, as 10.1.0.0/16."""
    self_approval: tuple[str, ...] = ()
    """RUBRICWORKS_SELF_APPROVAL: approvals without a second person, as `captioner-staging, *-test, rubrics:*`."""
    submissions: str | None = None
    """RUBRICWORKS_SUBMISSIONS: file that admits hosts, places and code of submitted recipes; see `SubmissionPolicy`."""
    kubeflow: str | None = None
    """RUBRICWORKS_KUBEFLOW: Kubeflow Pipelines, whose runs are listed too."""
    requests_a_minute: int = 12_000
    """RUBRICWORKS_REQUESTS_A_MINUTE: limit for one token, or for one address without a token."""
    public_url: str | None = None
    """RUBRICWORKS_PUBLIC_URL: address of the service for browsers behind a proxy: https://host, no path."""
    project: Project | None = None
    """RUBRICWORKS_PROJECT: file with the project's members, logins, budget and quotas."""
    local_runs: bool = False
    """Allow local runs (requires a loopback-only bind)."""
    own_url: str | None = None
    """Address at which runs on this machine call the service; `serve` fills it in."""
    index_seconds: float = 0.5
    """Pause between two looks at the runs."""
    reconcile_seconds: float = 60.0
    """Pause between two looks for drift."""

    @property
    def project_name(self) -> str | None:
        """Name of the installation's project, if it has one."""
        return self.project.name if self.project else None

    @property
    def database_url(self) -> str:
        """The database's URL; by default a file in the folder of the runs, or else in memory."""
        if self.database is not None:
            return self.database.get_secret_value()
        if self.storage is None or is_remote(self.storage):
            return "sqlite+aiosqlite:///:memory:"
        return sqlite_url(local_path(self.storage) / DATABASE_FILE, "sqlite+aiosqlite")


def settings_from_environment(runs: str | None = None) -> ApiSettings:
    """Read the settings from the environment; an empty variable counts as not set.

    Args:
        runs: storage of the runs, before the environment's.
    Raises:
        UserError: the token is too short, or the webhook's address, networks or secret are missing or wrong.
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
        storage=_variable("RUBRICWORKS_STORAGE") or runs,
        token=SecretStr(token) if token else None,
        revision=_variable("RUBRICWORKS_REVISION") or "unknown",
        self_approval=tuple((_variable("RUBRICWORKS_SELF_APPROVAL") or "").replace(",", " ").split()),
        submissions=_variable("RUBRICWORKS_SUBMISSIONS"),
        kubeflow=_variable("RUBRICWORKS_KUBEFLOW"),
        requests_a_minute=_requests_a_minute(),
        public_url=_public_url(),
        project=load_project(_variable("RUBRICWORKS_PROJECT")),
        webhook_url=_webhook_url(),
        webhook_networks=_webhook_networks(),
        webhook_secret=SecretStr(secret) if (secret := _variable("RUBRICWORKS_WEBHOOK_SECRET")) else None,
    )


def check_login(settings: ApiSettings) -> None:
    """Check that people can log in if the project has a login.

    Raises:
        UserError: the client's secret or this service's address is missing.
    """
    if settings.project is None or settings.project.login is None:
        return
    settings.project.login.client_secret()
    if settings.public_url is None:
        raise UserError(
            "RUBRICWORKS_PUBLIC_URL is not set, and the identity provider sends browsers back to it: write https://host"
        )


def has_own_file(settings: ApiSettings) -> bool:
    """Return True if the database is a file in the folder of runs, as it is where no other one is set."""
    return settings.database is None and settings.storage is not None and not is_remote(settings.storage)


def make_database_folder(settings: ApiSettings) -> None:
    """Create the folder of runs, which holds the database's file unless another one is set.

    Raises:
        UserError: it cannot be written.
    """
    if not has_own_file(settings) or settings.storage is None:
        return
    folder = local_path(settings.storage)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder) from error
    if not os.access(folder, os.W_OK):
        raise _unwritable(folder)


def _unwritable(folder: Path) -> UserError:
    return UserError(
        f"{folder}: cannot be written, and the server's database is a file in it: name the folder of all runs with "
        "--runs, or a database by RUBRICWORKS_DATABASE_URL"
    )


def _requests_a_minute() -> int:
    text = _variable("RUBRICWORKS_REQUESTS_A_MINUTE")
    if text is None:
        return int(ApiSettings.model_fields["requests_a_minute"].default)
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"RUBRICWORKS_REQUESTS_A_MINUTE is {text!r}; write a number of requests, at least 1")
    return int(text)


def _public_url() -> str | None:
    url = _variable("RUBRICWORKS_PUBLIC_URL")
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or "@" in parts.netloc or parts.query or parts.fragment:
        raise UserError("RUBRICWORKS_PUBLIC_URL is no address: write https://host")
    if parts.path.strip("/"):
        raise UserError(
            f"RUBRICWORKS_PUBLIC_URL has the path {parts.path}, and pages cannot be served below a path: give the "
            "service a host of its own and write https://host"
        )
    return url


def _webhook_url() -> str | None:
    url = _variable("RUBRICWORKS_WEBHOOK_URL")
    if url and not url.startswith(("https://", "http://")):
        raise UserError("RUBRICWORKS_WEBHOOK_URL is no address: write https://host/path")
    if url and not _variable("RUBRICWORKS_WEBHOOK_SECRET"):
        raise UserError(
            "RUBRICWORKS_WEBHOOK_URL needs RUBRICWORKS_WEBHOOK_SECRET, by which the consumer knows messages"
        )
    return url


def _webhook_networks() -> tuple[IPv4Network | IPv6Network, ...]:
    text = _variable("RUBRICWORKS_WEBHOOK_NETWORKS") or ""
    try:
        return tuple(ip_network(network) for network in text.replace(",", " ").split())
    except ValueError as error:
        raise UserError(f"RUBRICWORKS_WEBHOOK_NETWORKS: {error}; write 10.1.0.0/16, 10.2.0.0/16") from error


def _variable(name: str) -> str | None:
    return os.environ.get(name, "").strip() or None
