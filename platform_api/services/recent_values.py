"""Values that took a while to read or compute, of which the last few are kept: people look at one many times."""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rubricworks.platform_api.db.tables import RunTable
from rubricworks.runs.store import RunStore

T = TypeVar("T")


class RecentValues(Generic[T]):
    """Values by the place that they are of, until others come."""

    def __init__(self, most: int) -> None:
        """
        Args:
            most: number of values that are kept.
        """
        self._most = most
        self._known: dict[tuple[Any, ...], T] = {}

    async def get(self, place: tuple[Any, ...], make: Callable[..., T], *arguments: Any) -> T:
        """The value of a place; `make` makes it of the arguments, in a thread, if it is not known."""
        if place in self._known:
            return self._known[place]
        value = self._known[place] = await asyncio.to_thread(make, *arguments)
        while len(self._known) > self._most:
            self._known.pop(next(iter(self._known)))
        return value

    async def of_table(self, store: RunStore, table: RunTable, read: Callable[[RunStore, RunTable], T]) -> T:
        """What `read` makes of a table, until the table changes."""
        return await self.get((store.uri, table.run, table.path, table.modified), read, store, table)
