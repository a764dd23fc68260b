"""Requests that do not come: a caller that opens a connection and sends little or nothing is cut off.

uvicorn waits for ever for a request's head and body. A thousand such connections take all of a process's files, and
then nobody is answered, probes included. An answer may take long: the time of a request ends once it is whole.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

_SECONDS = 30.0
"""Time of a request, from the connection's begin or its first byte: two megabytes at 70 kB a second."""


class PunctualProtocol(H11Protocol):
    """HTTP/1.1 whose requests have a time to come in."""

    _cutting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin the time of the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """End the time of a request that is whole; begin that of the next one."""
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
            self._cutting = self.loop.call_later(_SECONDS, self.transport.close)

    def _stop_watching(self) -> None:
        if self._cutting is not None:
            self._cutting.cancel()
            self._cutting = None
