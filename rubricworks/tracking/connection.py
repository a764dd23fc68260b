"""Connection to MLflow: a server, or a SQLite file in the runs folder if none is configured.

MLflow takes two seconds to import and a new database three to migrate, so neither happens before it is needed.
"""

import importlib.util
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.errors import TransientError, UserError
from rubricworks.redaction import foreign_line, redact
from rubricworks.storage import write_atomic
from rubricworks.storage.files import sqlite_file, sqlite_url
from rubricworks.tracking.transfers import REQUEST_SETTINGS

if TYPE_CHECKING:
    from mlflow import MlflowClient

log = logging.getLogger(__name__)

_ENVIRONMENT = {
    **REQUEST_SETTINGS,
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "GIT_PYTHON_REFRESH": "quiet",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
_CHECK_SECONDS = 5


class TrackingConfig(BaseModel):
    """MLflow server or file, and experiment."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    uri: str = ""
    """An MLflow tracking URI. Empty: MLFLOW_TRACKING_URI if it is set, else `mlflow.db` in the runs folder. With
    a SQLite file, models and pages are in the folder `mlartifacts` beside it.
    """
    experiment: str = Field(default="rubricworks", min_length=1)
    """Experiment in MLflow."""


@dataclass(frozen=True)
class Connection:
    """Client of one MLflow experiment."""

    client: "MlflowClient"
    uri: str
    experiment_id: str

    @property
    def safe_uri(self) -> str:
        """The URI without its password, if it has one."""
        return redact(self.uri)


def tracking_uri(config: TrackingConfig, runs: Path) -> str:
    """Return the config's URI, or the default from the environment or the runs folder."""
    return config.uri or os.environ.get("MLFLOW_TRACKING_URI", "") or sqlite_url(runs / "mlflow.db")


def missing_database(config: TrackingConfig, runs: Path) -> Path | None:
    """Return the SQLite file that `connect` would create; None if it exists, or the URI is a server."""
    database = sqlite_file(tracking_uri(config, runs))
    return database if database and not database.is_file() else None


def check_tracking(config: TrackingConfig, runs: Path) -> bool:
    """Return True if runs can be tracked, without importing MLflow.

    Returns:
        False if MLflow is not installed and no server is configured.
    Raises:
        UserError: a configured server does not answer, or MLflow is not installed to reach it.
    """
    if importlib.util.find_spec("mlflow") is None:
        if config.uri:
            raise UserError(
                f"tracking.uri: {redact(config.uri)} needs MLflow; "
                "pip install 'rubricworks[tracking]', or leave uri empty"
            )
        return False
    uri = tracking_uri(config, runs)
    if urlsplit(uri).scheme in ("http", "https"):
        _check_server(uri)
    return True


def connect(config: TrackingConfig, runs: Path) -> Connection | None:
    """Open the experiment; create it (and the SQLite file) if needed. Return None if MLflow is not installed.

    Raises:
        UserError: the server does not answer or refuses.
    """
    if not check_tracking(config, runs):
        log.warning("tracking is off: MLflow is not installed (pip install 'rubricworks[tracking]')")
        return None
    uri = tracking_uri(config, runs)
    _set_environment()
    with report_mlflow_errors(uri):
        from mlflow import MlflowClient

        for name in ("mlflow.store", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        if database := sqlite_file(uri):
            _make_database(database)
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        return Connection(client, uri, _experiment(client, config.experiment, _artifact_location(uri)))


class MlflowAway(TransientError):
    """MLflow does not answer, or not as it should."""


class MlflowRefused(UserError):
    """MLflow does not let this user in, or not do this."""


@contextmanager
def report_mlflow_errors(uri: str) -> Iterator[None]:
    """Convert MLflow's errors into one line that names the URI.

    Raises:
        MlflowRefused: it refuses access.
        UserError: it refuses the request, such as one for a version that it does not have.
        MlflowAway: it fails, or does not answer.
    """
    try:
        yield
    except (UserError, ImportError):
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("mlflow", "requests", "sqlalchemy", "urllib3")):
            raise
        first = (str(error).splitlines() or [type(error).__name__])[0]
        said = f"MLflow at {redact(uri)}: {foreign_line(first)}"
        status = error.get_http_status_code() if hasattr(error, "get_http_status_code") else 500
        if status in (401, 403):
            raise MlflowRefused(
                f"{said} (HTTP {status}): access is refused; grant it, or correct MLFLOW_TRACKING_USERNAME and "
                "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
            ) from error
        if 400 <= status < 500 and status not in (408, 429):
            raise UserError(said) from error
        raise MlflowAway(f"{said}; {_how_to_test(uri)}") from error


def _set_environment() -> None:
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def _check_server(uri: str) -> None:
    """Ask a server whether it is there, as MLflow's client does: with its certificates, its proxy and its user.

    Raises:
        UserError: the connection cannot be trusted, or a variable of MLflow is wrong.
        MlflowAway: the server does not answer.
    """
    _set_environment()
    from mlflow.exceptions import MlflowException
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    try:
        creds = get_default_host_creds(uri)
        # Whatever it answers, it is there; MLflow's own calls will show whether it grants access.
        http_request(creds, "/health", "GET", max_retries=0, timeout=_CHECK_SECONDS, raise_on_status=False)
    except MlflowException as error:
        reason = _innermost_reason(error)
        said = f"no MLflow server at {redact(uri)} ({foreign_line(reason)})"
        if any(word in reason.lower() for word in ("certificate", "ssl", "tls", "pem")):
            raise UserError(
                f"{said}; set MLFLOW_TRACKING_SERVER_CERT_PATH (or REQUESTS_CA_BUNDLE) to the file of its CA, or "
                "MLFLOW_TRACKING_CLIENT_CERT_PATH to the certificate that it asks for"
            ) from None
        raise MlflowAway(f"{said}; {_how_to_test(uri)}") from None


def _innermost_reason(error: BaseException) -> str:
    """What the cause of a chain of errors says; requests and urllib3 keep it in different places."""
    while inner := error.__cause__ or error.__context__ or _carried(error):
        error = inner
    return getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]


def _carried(error: BaseException) -> BaseException | None:
    carried = (getattr(error, "reason", None), *error.args)
    return next((inner for inner in carried if isinstance(inner, BaseException)), None)


def _artifact_location(uri: str) -> str | None:
    """Return the artifact folder beside a SQLite file; MLflow's own default is the current directory."""
    database = sqlite_file(uri)
    return (database.parent / "mlartifacts").as_uri() if database else None


def _experiment(client: "MlflowClient", name: str, artifacts: str | None) -> str:
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            return client.create_experiment(name, artifact_location=artifacts)
        except MlflowException:  # another process created it meanwhile
            experiment = client.get_experiment_by_name(name)
            if experiment is None:
                raise
    if experiment.lifecycle_stage == "deleted":
        raise UserError(
            f"tracking.experiment: {name!r} is deleted in MLflow; choose another name, or "
            f"run mlflow experiments restore --experiment-id {experiment.experiment_id}"
        )
    return experiment.experiment_id


def _make_database(path: Path) -> None:
    """Create a migrated SQLite file atomically.

    MLflow runs some seventy migrations in place, each flushed to disk: slow, and a kill in between leaves a database
    that never opens again. In memory-backed /dev/shm they take a quarter of the time; the link at the end is atomic.
    """
    if path.is_file():
        return
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if os.access(shm, os.W_OK) else None) as folder:
        blank = Path(folder) / "mlflow.db"
        _migrate(blank)
        temporary = path.with_name(f".{Path(folder).name}.db")
        write_atomic(temporary, blank.read_bytes())
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass  # another process was first, and may already be writing to it
    finally:
        temporary.unlink()


def _migrate(database: Path) -> None:
    """Create a SQLite file with MLflow's tables."""
    from mlflow import MlflowClient

    MlflowClient(tracking_uri=sqlite_url(database)).search_experiments()


def _how_to_test(uri: str) -> str:
    if urlsplit(uri).scheme in ("http", "https"):
        address = redact(uri).rstrip("/")
        return f"test it with: curl {address}/health, or leave tracking.uri empty for a local file"
    return "check tracking.uri, or leave it empty for a local file"
