"""Storage of an installation's runs: opened at the start, and again when it is needed, until it answers."""

import asyncio
import logging
import time

from rubricworks.errors import UserError
from rubricworks.runs.store import RunStore, open_run_store

_AGAIN_AFTER = 5.0
"""Seconds between attempts to open it: each may take as long as a store that does not answer."""
_PATIENCE_S = 5.0
"""Seconds for which a bucket that fails is asked again: who reads a page waits for the answer."""
_log = logging.getLogger(__name__)


class RunStorage:
    """The storage at one place, once it is open."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._store: RunStore | None = None
        self._lock, self._next = asyncio.Lock(), 0.0

    async def get(self) -> RunStore | None:
        """The open storage; None, and a line in the log, if it does not answer."""
        async with self._lock:
            if self._store is None and time.monotonic() >= self._next:
                try:
                    self._store = await asyncio.to_thread(open_run_store, self._uri, patience_s=_PATIENCE_S)
                except UserError as error:
                    _log.warning("%s", error)
                self._next = time.monotonic() + _AGAIN_AFTER
            return self._store

    async def wait(self) -> RunStore:
        """The storage, once it is open."""
        while True:
            store = await self.get()
            if store is not None:
                return store
            await asyncio.sleep(_AGAIN_AFTER)
