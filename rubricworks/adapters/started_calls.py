"""Judge calls of a batch that start while its last rollouts are still being sampled.

A trainer that samples a batch hands each rollout to a reward when it ends (`start`); the reward's call for the whole
batch takes the results. So rewards, tables and their order are those of a batch that is graded at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Arguments = tuple[Any, ...]
Call = Callable[..., Awaitable[T]]


class StartedCalls(Generic[T]):
    """Calls of the next batch, by row. Use it from one event loop."""

    def __init__(self) -> None:
        self._started: dict[int, tuple[Arguments, asyncio.Future[T]]] = {}

    def start(self, call: Call[T], rows: Mapping[int, Arguments]) -> None:
        """Start the calls of these rows of the next batch."""
        for row, arguments in rows.items():
            self._started[row] = arguments, asyncio.ensure_future(call(*arguments))

    async def gather(self, call: Call[T], rows: Sequence[Arguments]) -> list[T]:
        """Return the results of a batch's rows, in order; those that did not start with these arguments start now."""
        started, self._started = self._started, {}
        calls: list[Awaitable[T]] = []
        for row, arguments in enumerate(rows):
            known, future = started.pop(row, ((), None))
            if future is None or known != arguments:
                if future is not None:
                    future.cancel()
                calls.append(call(*arguments))
            else:
                calls.append(future)
        for _, future in started.values():
            future.cancel()
        return await asyncio.gather(*calls)
