"""Timeouts of many requests with the same limit: one timer per event loop instead of one per request.

Deadlines expire in the order in which the requests began, so only the first needs a timer. aiohttp's own total timeout
sets and clears a timer per request, which is a tenth of the cost of a fast call.
"""

import asyncio


class Deadlines:
    """Deadlines of one event loop's open requests. The task that sends a request calls `begin` and `end`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._open: dict[asyncio.Task[object], tuple[float, int]] = {}
        """Task → its deadline, and its number of cancellation requests at `begin`."""
        self._expired: dict[asyncio.Task[object], int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> "asyncio.Task[object]":
        task = asyncio.current_task()
        assert task is not None, "a request is sent by a task"
        self._open[task] = (self._loop.time() + self._seconds, task.cancelling())
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._cancel_expired)
        return task

    def end(self, task: "asyncio.Task[object]") -> bool:
        """Return True if the deadline was the only reason for the task's cancellation."""
        if self._open.pop(task, None) is None and (cancellations := self._expired.pop(task, None)) is not None:
            return task.uncancel() <= cancellations
        return False

    def _cancel_expired(self) -> None:
        self._timer = None
        while self._open:
            task, (deadline, cancellations) = next(iter(self._open.items()))
            if deadline > self._loop.time():
                self._timer = self._loop.call_at(deadline, self._cancel_expired)
                return
            del self._open[task]
            self._expired[task] = cancellations
            task.cancel()
