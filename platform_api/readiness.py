"""Dependencies of the service and their readiness checks.

Probes come every few seconds, so a finding is cached, one check of a dependency runs at a time, and a check without an
answer by its deadline counts as failed, although it may still be waiting in its thread.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from rubricworks.errors import UserError
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.faults import database_file, fault_of, reason_of
from rubricworks.platform_api.db.migrate import REVISIONS, check_owner, check_revision
from rubricworks.platform_api.settings import ApiSettings

_FAILURE_SECONDS = 5.0
"""Maximum lifetime of a cached failure."""
_OWNER_SECONDS = 5.0
"""Time that a start waits for the name of the database's project."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Finding:
    """Result of a check of one dependency."""

    ok: bool
    detail: str
    """Text for operators: may contain host names, never secrets."""


class Dependency:
    """A service that this one needs, with its check. Belongs to one event loop."""

    def __init__(self, name: str, check: Callable[[], str], *, fresh: float = 5.0, deadline: float = 5.0) -> None:
        """
        Args:
            check: returns its result in a few words, or raises UserError with the fault. It may block.
            fresh: lifetime of a good finding in seconds; a failure is checked again after at most 5.
            deadline: seconds after which a check without an answer counts as failed.
        """
        self.name = name
        self._check = check
        self._fresh, self._deadline = fresh, deadline
        self._pending: asyncio.Future[Finding] | None = None
        self._cache: tuple[float, Finding] | None = None
        """Expiry time, by `time.monotonic`, and finding."""
        self._last_ok: bool | None = None

    async def finding(self) -> Finding:
        """Return the cached finding if it is fresh, else a new one within `deadline` seconds."""
        if self._cache and time.monotonic() < self._cache[0]:
            return self._cache[1]
        if self._pending is None:
            self._pending = _in_thread(partial(_run_check, self.name, self._check))
            self._pending.add_done_callback(self._store)
        try:
            finding = await asyncio.wait_for(asyncio.shield(self._pending), self._deadline)
        except TimeoutError:
            finding = Finding(False, f"no answer within {self._deadline:g} s")
        self._log_change(finding)
        return finding

    def _store(self, answer: asyncio.Future[Finding]) -> None:
        finding = answer.result()
        lifetime = self._fresh if finding.ok else min(self._fresh, _FAILURE_SECONDS)
        self._pending, self._cache = None, (time.monotonic() + lifetime, finding)

    def _log_change(self, finding: Finding) -> None:
        """Log a change of state, not every probe."""
        if finding.ok != self._last_ok:
            self._last_ok = finding.ok
            _log.log(logging.INFO if finding.ok else logging.WARNING, "%s: %s", self.name, finding.detail)


def check_database(engine: Engine, project: str | None = None) -> str:
    """Compare the database's revision with this version's, and its project with the installation's.

    Raises:
        UserError: the database does not answer, refuses, has not been migrated, or is another program's or project's.
    """
    try:
        with engine.connect() as connection:
            revision = check_revision(connection, project)
    except SQLAlchemyError as error:
        fault = fault_of(error)
        said = fault.line(reason_of(error)) if fault and fault.remedy else reason_of(error)
        raise UserError(f"{engine.url.render_as_string(hide_password=True)}: {said}") from error
    newer = "" if revision == REVISIONS[-1] else f"; a newer version has migrated it to revision {revision}"
    return f"{engine.dialect.name} answers{newer}"


async def refuse_other_project(settings: ApiSettings) -> None:
    """Refuse to start on another project's database; if it does not respond soon, readiness reports it later.

    Raises:
        UserError: it belongs to another project.
    """
    path = database_file(settings.database_url)
    database = Database(settings.database_url)
    if database.is_sqlite and (path is None or not path.is_file()):
        return
    try:
        with suppress(SQLAlchemyError, TimeoutError):
            async with asyncio.timeout(_OWNER_SECONDS), database.engine.connect() as connection:
                await connection.run_sync(check_owner, settings.project_name)
    finally:
        await database.close()


def check_storage_access(uri: str) -> str:
    """Check access to the storage.

    Raises:
        UserError: the storage does not answer or refuses.
    """
    from rubricworks.storage import check_storage

    return check_storage(uri)


def _run_check(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(True, check())
    except UserError as error:
        return Finding(False, str(error))
    except Exception:
        _log.exception("asking %s failed", name)
        return Finding(False, "asking failed; the service's log has the reason")


def _in_thread(check: Callable[[], Finding]) -> asyncio.Future[Finding]:
    """Run the check in a daemon thread, which does not keep the process alive."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Finding] = loop.create_future()

    def work() -> None:
        finding = check()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: None if answer.cancelled() else answer.set_result(finding))

    threading.Thread(target=work, daemon=True).start()
    return answer
