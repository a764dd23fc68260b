"""Streams of events that are open: how many there may be, and what they look at together.

A stream holds a connection, and looks at its run when the index of this process has something new of it, and from time
to time, since another process may index. So a caller and the whole process have a number of them at most, and a look
serves all streams that ask for the same: the load follows the runs that are watched, not the watchers.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import Any, TypeVar

MOST = 256
"""Open streams of the process."""
MOST_OF_CALLER = 32
"""Open streams of one token, or of this machine's programs."""
RETRY_SECONDS = 30
_KEPT_SECONDS = 5.0
"""Time for which a look's result is reused."""
T = TypeVar("T")


class Streams:
    """The open streams of a process."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._looks: dict[Hashable, tuple[float, asyncio.Future[Any]]] = {}
        self._news: dict[str, asyncio.Event] = {}
        """Run → event for which its streams wait."""

    def refusal(self, caller: str) -> str:
        """Reason to refuse another stream of this caller; empty if there is none."""
        if self._open[caller] >= MOST_OF_CALLER:
            return f"{caller} follows {MOST_OF_CALLER} streams of events already; close some, or ask without a stream"
        if self._open.total() >= MOST:
            return f"{MOST} streams of events are followed already; try again in a moment, or ask without a stream"
        return ""

    @contextlib.contextmanager
    def opened(self, caller: str) -> Iterator[None]:
        """Count a stream while the block runs."""
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]

    def wake(self, run: str) -> None:
        """Make the streams of a run look again at once."""
        self._looks.pop(run, None)
        if event := self._news.pop(run, None):
            event.set()

    def news(self, run: str) -> asyncio.Event:
        """Event that is set when something new of a run is indexed from now on."""
        return self._news.setdefault(run, asyncio.Event())

    async def look(self, key: Hashable, fetch: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Result of a recent look, or else of a new one.

        Args:
            key: the same for looks that find the same.
        """
        now = time.monotonic()
        begin, looking = self._looks.get(key, (now, None))
        if looking is None or now - begin >= seconds:
            self._looks = {known: look for known, look in self._looks.items() if now - look[0] < _KEPT_SECONDS}
            looking = asyncio.ensure_future(fetch())
            # Nobody may be left to read its exception.
            looking.add_done_callback(lambda look: look.cancelled() or look.exception())
            self._looks[key] = now, looking
        # Another stream may wait for it when this one's caller is gone.
        result: T = await asyncio.shield(looking)
        return result
