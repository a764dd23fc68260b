"""Timeouts of many requests that may all take equally long: one timer for an event loop instead of one for each.

Requests end their time in the order in which they began, so only the first needs watching. aiohttp's own total timeout
sets and clears a timer per request, a tenth of what a fast call costs.
"""

import asyncio


class Deadlines:
    """The open requests of one event loop. `begin` and `end` are called by the task that sends the request."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._open: dict[asyncio.Task[object], tuple[float, int]] = {}
        """Task → when its time is over, and how often others had cancelled it before."""
        self._late: dict[asyncio.Task[object], int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> "asyncio.Task[object]":
        task = asyncio.current_task()
        assert task is not None, "a request is sent by a task"
        self._open[task] = (self._loop.time() + self._seconds, task.cancelling())
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._end_late_ones)
        return task

    def end(self, task: "asyncio.Task[object]") -> bool:
        """Whether it was cancelled because its time was over, and for no other reason."""
        if self._open.pop(task, None) is None and (before := self._late.pop(task, None)) is not None:
            return task.uncancel() <= before
        return False

    def _end_late_ones(self) -> None:
        self._timer = None
        while self._open:
            task, (end, before) = next(iter(self._open.items()))
            if end > self._loop.time():
                self._timer = self._loop.call_at(end, self._end_late_ones)
                return
            del self._open[task]
            self._late[task] = before
            task.cancel()
