"""Dependencies of the service and their checks.

Probes come every few seconds; so a finding is kept a while, a question is asked once at a time, and one that gets no
answer counts as failed when its time is up, though it may still be waiting in its thread.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from rubricworks.errors import UserError

_FAILURE_KEPT = 5.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Finding:
    """Result of a check of one dependency."""

    ok: bool
    detail: str
    """For operators: it may name hosts, never secrets."""


class Dependency:
    """One thing that has to answer. Belongs to one event loop."""

    def __init__(self, name: str, ask: Callable[[], str], *, fresh: float = 5.0, deadline: float = 5.0) -> None:
        """A dependency that has not been asked yet.

        Args:
            ask: returns what it found, in a few words; raises UserError saying what is wrong. It may block.
            fresh: seconds that a good finding is kept; a failure is asked again after 5 at the latest.
            deadline: seconds after which no answer is a failure.
        """
        self.name = name
        self._ask = ask
        self._fresh, self._deadline = fresh, deadline
        self._asked: asyncio.Future[Finding] | None = None
        self._kept: tuple[float, Finding] | None = None
        """A finding and when it is old, by `time.monotonic`."""
        self._said: bool | None = None

    async def finding(self) -> Finding:
        """A kept finding if there is a fresh one, else a new one, in `deadline` seconds at the latest."""
        if self._kept and time.monotonic() < self._kept[0]:
            return self._kept[1]
        if self._asked is None:
            self._asked = _in_thread(partial(_found, self.name, self._ask))
            self._asked.add_done_callback(self._keep)
        try:
            found = await asyncio.wait_for(asyncio.shield(self._asked), self._deadline)
        except TimeoutError:
            found = Finding(False, f"no answer within {self._deadline:g} s")
        self._say(found)
        return found

    def _keep(self, answer: asyncio.Future[Finding]) -> None:
        found = answer.result()
        kept_for = self._fresh if found.ok else min(self._fresh, _FAILURE_KEPT)
        self._asked, self._kept = None, (time.monotonic() + kept_for, found)

    def _say(self, found: Finding) -> None:
        """Log what changed, not every probe."""
        if found.ok != self._said:
            self._said = found.ok
            _log.log(logging.INFO if found.ok else logging.WARNING, "%s: %s", self.name, found.detail)


def database_answers(engine: Engine) -> str:
    """Ask the database for a row.

    Raises:
        UserError: it cannot be reached, or refuses.
    """
    try:
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
    except SQLAlchemyError as error:
        first_line, *_ = str(getattr(error, "orig", None) or error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"{engine.url.render_as_string(hide_password=True)}: {first_line}") from error
    return f"{engine.dialect.name} answers"


def storage_answers(uri: str) -> str:
    """Ask the storage.

    Raises:
        UserError: it cannot be reached, or refuses.
    """
    from rubricworks.storage import check_storage

    return check_storage(uri)


def _found(name: str, ask: Callable[[], str]) -> Finding:
    try:
        return Finding(True, ask())
    except UserError as error:
        return Finding(False, str(error))
    except Exception:
        _log.exception("asking %s failed", name)
        return Finding(False, "asking failed; the service's log has the reason")


def _in_thread(ask: Callable[[], Finding]) -> asyncio.Future[Finding]:
    """The answer, from a thread that does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Finding] = loop.create_future()

    def work() -> None:
        found = ask()
        with suppress(RuntimeError):  # the loop ended meanwhile
            loop.call_soon_threadsafe(lambda: None if answer.cancelled() else answer.set_result(found))

    threading.Thread(target=work, daemon=True).start()
    return answer
