"""Concurrency limit per endpoint and model: additive increase, multiplicative decrease (AIMD).

The limit starts at 32 (or the endpoint's cap, if lower), grows by one per 25 answers while it is fully used, and drops
to three quarters when the server throttles (429, or any `Retry-After`). It drops once per burst: answers to requests
sent before the last cut do not count. During the server's pause nothing is sent.

All clients of one endpoint and model in a process share one limiter, across event loops.
"""

import asyncio
import math
import random
import threading
import time
import weakref
from collections import deque

from rubricworks.llm.endpoint import Endpoint

_INITIAL_LIMIT = 32
_GROW_EVERY = 25
_CUT_FACTOR = 0.75
_FIRST_WAIT_S = 0.25
_MAX_WAIT_S = 20.0
_MAX_DOUBLINGS = 10
"""Bound on the exponent of the backoff, against overflow."""

_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Limiter:
    """AIMD limiter. Call `try_acquire` or `acquire` before a request, and `release` after it in every case."""

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.limit = float(min(_INITIAL_LIMIT, cap))
        self.in_flight = 0
        self.cuts = 0
        self.throttled = 0
        """Number of throttled requests."""
        self._successes = 0
        self._last_cut = 0.0
        self._resume_at = 0.0
        self._consecutive_cuts = 0
        self._throttled_since: float | None = None
        self._waiters: deque[_Waiter] = deque()
        self._lock = threading.Lock()

    def try_acquire(self) -> bool:
        """Take a slot if one is free; returns False otherwise."""
        with self._lock:
            if self._waiters or self._full or self._resume_at > 0.0:
                return False
            self.in_flight += 1
            return True

    async def acquire(self, patience_s: float = math.inf) -> bool:
        """Wait for a slot; returns False if the server has throttled for longer than `patience_s`."""
        while True:
            with self._lock:
                pause = self._resume_at - time.monotonic() if self._resume_at else 0.0
                if pause <= 0.0:
                    self._resume_at = 0.0
                    if not self._full:
                        self.in_flight += 1
                        return True
                    loop = asyncio.get_running_loop()
                    turn: asyncio.Future[None] = loop.create_future()
                    self._waiters.append((loop, turn))
                elif self._throttled_since is not None and self._resume_at - self._throttled_since > patience_s:
                    return False
            if pause > 0.0:
                await asyncio.sleep(pause * random.uniform(1.0, 1.1))
                continue
            try:
                await turn
            except asyncio.CancelledError:
                self._leave_queue(loop, turn)
                raise
            if self._resume_at <= time.monotonic():
                return True
            self.release(answered=False)  # a pause has begun: sleep through it, and let the next waiter see it, too

    def release(self, *, answered: bool) -> None:
        """Return the slot of a finished request; `answered` is True for a valid answer."""
        with self._lock:
            if answered:
                self._consecutive_cuts = 0
                self._throttled_since = None
                if self.limit < self.cap and self._full:
                    self._successes += 1
                    if self._successes >= _GROW_EVERY:
                        self._successes = 0
                        self.limit = min(self.limit + 1, self.cap)
            self.in_flight -= 1
            if self._waiters:
                self._admit_waiters()

    def back_off(self, sent_at: float, retry_after: float | None) -> float:
        """Cut the limit and pause, after a throttled request.

        Args:
            sent_at: time at which the throttled request was sent, by `time.monotonic`.
            retry_after: seconds from the server's `Retry-After`; None or 0 if it gives none.
        Returns:
            Seconds since the first of the consecutive throttled answers, up to the end of the coming pause.
        """
        with self._lock:
            now = time.monotonic()
            self.throttled += 1
            self._successes = 0
            if self._throttled_since is None:
                self._throttled_since = now
            if sent_at > self._last_cut:
                self._last_cut = now
                self.limit = max(1.0, self.limit * _CUT_FACTOR)
                self.cuts += 1
                self._consecutive_cuts += 1
            doublings = min(self._consecutive_cuts - 1, _MAX_DOUBLINGS)
            backoff = min(_FIRST_WAIT_S * 2**doublings, _MAX_WAIT_S)
            self._resume_at = max(self._resume_at, now + (retry_after or backoff))
            return self._resume_at - self._throttled_since

    @property
    def _full(self) -> bool:
        return self.in_flight >= int(self.limit)

    def _admit_waiters(self) -> None:
        """Give free slots to the longest-waiting callers."""
        while self._waiters and not self._full:
            loop, turn = self._waiters.popleft()
            self.in_flight += 1
            if loop is _running_loop():
                if turn.done():
                    self.in_flight -= 1
                else:
                    turn.set_result(None)
            else:
                try:
                    loop.call_soon_threadsafe(self._grant, turn)
                except RuntimeError:  # the waiter's loop is closed
                    self.in_flight -= 1

    def _grant(self, turn: "asyncio.Future[None]") -> None:
        if turn.done():
            self.release(answered=False)
        else:
            turn.set_result(None)

    def _leave_queue(self, loop: asyncio.AbstractEventLoop, turn: "asyncio.Future[None]") -> None:
        """Remove a cancelled waiter from the queue, or release the slot it was just granted."""
        with self._lock:
            if (loop, turn) in self._waiters:
                self._waiters.remove((loop, turn))
                return
        if turn.done() and not turn.cancelled():
            self.release(answered=False)


def shared_limiter(endpoint: Endpoint) -> Limiter:
    """Limiter of an endpoint and model, shared in this process; its cap is the largest `concurrency` requested."""
    key = (endpoint.urls, endpoint.model)
    with _shared_lock:
        if (limiter := _shared.get(key)) is None:
            limiter = _shared[key] = Limiter(endpoint.concurrency)
        elif endpoint.concurrency > limiter.cap:
            limiter.cap = endpoint.concurrency
        return limiter


_shared: "weakref.WeakValueDictionary[tuple[object, ...], Limiter]" = weakref.WeakValueDictionary()
_shared_lock = threading.Lock()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
