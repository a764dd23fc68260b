"""Server start and stop: settings are validated before the port opens, and a stop lets responses finish.

A caller that opens a connection and sends little or nothing is cut off. uvicorn waits for ever for a request's head and
body. A thousand such connections take all of a process's files, and then nobody is answered, probes included. An answer
may take long: the time of a request ends once it is whole.
"""

import asyncio
import contextlib
import logging
import resource
import socket
import sys
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet  # now, not while the first group's readers wait: half a second
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from rubricworks.errors import UserError
from rubricworks.listening import listen, url_of
from rubricworks.platform_api.access import OPEN_PATHS, binds_to_loopback
from rubricworks.platform_api.app import create_app
from rubricworks.platform_api.db.engine import open_engine
from rubricworks.platform_api.db.faults import check_database_file, database_file
from rubricworks.platform_api.readiness import refuse_other_project
from rubricworks.platform_api.services.submission.submission_policy import load_policy
from rubricworks.platform_api.settings import check_login, make_database_folder, settings_from_environment

_REQUEST_SECONDS = 30.0
"""Time of a request, from the connection's begin or its first byte: two megabytes at 70 kB a second."""
_SECONDS_TO_FINISH = 20
_OPEN_FILES = 16_384


class PunctualProtocol(H11Protocol):
    """HTTP/1.1 with a time limit for incoming requests."""

    _cutting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin the time of the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Stop the clock of a complete request, and start the next request's."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the time."""
        super().connection_lost(exc)
        self._stop_watching()

    def _watch(self) -> None:
        is_whole = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        if is_whole:
            self._stop_watching()
        elif self._cutting is None:
            self._cutting = self.loop.call_later(_REQUEST_SECONDS, self.transport.close)

    def _stop_watching(self) -> None:
        if self._cutting is not None:
            self._cutting.cancel()
            self._cutting = None


class StreamEndingServer(uvicorn.Server):
    """A server that ends its event streams when it is stopped."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell the streams, then stop as any other."""
        self.config.app.state.is_stopping = True  # type: ignore[union-attr]
        await super().shutdown(sockets)


def listening_socket(host: str, port: int, runs: str | None = None) -> socket.socket:
    """Open a socket that listens on `host`.

    Args:
        runs: storage of the runs, if the environment names none.

    Raises:
        UserError: the address cannot be used, or it is not loopback and no token is set.
    """
    settings = settings_from_environment(runs)
    load_policy(settings.submissions)
    check_login(settings)
    open_engine(settings.database_url)  # its URL is checked, and nothing connects
    try:
        if settings.token is None and not binds_to_loopback(host):
            raise UserError(
                f"--host {host} can be reached from other machines and RUBRICWORKS_API_TOKEN is not set: "
                "set it to a token of at least 16 characters, or listen on 127.0.0.1"
            )
        make_database_folder(settings)
        if (path := database_file(settings.database_url)) is not None:
            check_database_file(path)
        asyncio.run(refuse_other_project(settings))
        return listen(host, port)
    except OSError as error:
        raise UserError(
            f"cannot listen on {host}:{port} ({error.strerror or error}); choose another --host or --port"
        ) from error


def serve(listening: socket.socket, runs: str | None = None) -> None:
    """Serve until SIGINT or SIGTERM, with the settings of the environment."""
    is_loopback_only = binds_to_loopback(listening.getsockname()[0])
    _configure_logging(requests=not is_loopback_only)
    # Arrow's own pools keep what each thread has freed: 90 MB more where many groups are read. The variable that
    # chooses one is read when Arrow is imported, which has happened.
    pa.set_memory_pool(pa.system_memory_pool())
    # A list of many runs and the parsing of tables hold the interpreter in threads of their own. An answer needs it a
    # dozen times, and would wait 5 ms each time.
    sys.setswitchinterval(0.0005)
    own = {"local_runs": is_loopback_only, "own_url": url_of(listening)}
    _allow_many_connections()
    server_of(create_app(settings_from_environment(runs).model_copy(update=own))).run(sockets=[listening])


def server_of(app: FastAPI) -> uvicorn.Server:
    """The server of an application."""
    config = uvicorn.Config(
        app,
        http=PunctualProtocol,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
    )
    return StreamEndingServer(config)


def _configure_logging(*, requests: bool) -> None:
    """Log lines of this service, and of libraries warnings and errors.

    Args:
        requests: a line for each request, as an installation needs; somebody at this machine has no use for them.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    logging.getLogger("rubricworks").setLevel(logging.INFO)
    of_requests = logging.getLogger("uvicorn.access")
    of_requests.setLevel(logging.INFO if requests else logging.WARNING)
    of_requests.addFilter(_reject_probes)


def _allow_many_connections() -> None:
    """Raise the limit of open files: a connection is one, and a shell grants 1024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if most == resource.RLIM_INFINITY else min(most, _OPEN_FILES)
    with contextlib.suppress(ValueError, OSError):  # macOS names a limit that it does not grant
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0]), most))


def _reject_probes(record: logging.LogRecord) -> bool:
    """Log filter that drops probes, which would fill the log."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    return len(arguments) < 3 or str(arguments[2]).partition("?")[0] not in OPEN_PATHS
