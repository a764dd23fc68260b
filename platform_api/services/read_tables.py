"""Tables of runs that were read as a whole, of which the last few are remembered: people look at one many times."""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rubricworks.platform_api.db.tables import RunTable
from rubricworks.runs.store import RunStore

T = TypeVar("T")
_REMEMBERED = 4


class ReadTables(Generic[T]):
    """What tables hold, until they change or others come."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], T] = {}

    async def get(self, store: RunStore, table: RunTable, read: Callable[[RunStore, RunTable], T]) -> T:
        """What the table holds; `read` reads it in a thread if it is not remembered."""
        place = (store.uri, table.run, table.path, table.modified)
        if place in self._known:
            return self._known[place]
        found = self._known[place] = await asyncio.to_thread(read, store, table)
        while len(self._known) > _REMEMBERED:
            self._known.pop(next(iter(self._known)))
        return found
