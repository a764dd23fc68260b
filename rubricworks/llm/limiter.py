"""How many requests may be in flight to one model at one endpoint: additive increase, multiplicative decrease.

It begins at 32 (or the endpoint's cap, if that is lower), grows by one with every 25 answers while it is used to the
full, and falls to three quarters when the server says that it is too much (429, or any `Retry-After`): once per burst,
that is, not again for requests that were sent before the last cut. While a server asks for patience nothing is sent.

All clients of one endpoint and model in a process share one limiter, from whatever event loop they call.
"""

import asyncio
import math
import random
import threading
import time
import weakref
from collections import deque

from rubricworks.llm.endpoint import Endpoint

_START = 32
_GROW_EVERY = 25
_CUT = 0.75
_FIRST_WAIT_S = 0.25
_LONGEST_GUESSED_WAIT_S = 20.0
_DOUBLINGS = 10
"""No more of them: they would soon overflow."""

_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Limiter:
    """Places in flight. `take` or `wait` before a request; `give_back` after it, whatever came of it."""

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.limit = float(min(_START, cap))
        self.in_flight = 0
        self.cuts = 0
        self.throttled = 0
        """Requests that the server turned away, asking for patience."""
        self._successes = 0
        self._last_cut = 0.0
        self._resume_at = 0.0
        self._turned_away_in_a_row = 0
        self._patient_since: float | None = None
        self._waiters: deque[_Waiter] = deque()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """A place, if one is free at once."""
        with self._lock:
            if self._waiters or self._full or self._resume_at > 0.0:
                return False
            self.in_flight += 1
            return True

    async def wait(self, patience_s: float = math.inf) -> bool:
        """A place, as soon as there is one; False when the server has asked for more patience than `patience_s`."""
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
                elif self._patient_since is not None and self._resume_at - self._patient_since > patience_s:
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
            self.give_back(answered=False)  # a pause has begun: sleep through it, and let the next one see it, too

    def give_back(self, *, answered: bool) -> None:
        """The place of a request that is over, and whether a good answer came."""
        with self._lock:
            if answered:
                self._turned_away_in_a_row = 0
                self._patient_since = None
                if self.limit < self.cap and self._full:
                    self._successes += 1
                    if self._successes >= _GROW_EVERY:
                        self._successes = 0
                        self.limit = min(self.limit + 1, self.cap)
            self.in_flight -= 1
            if self._waiters:
                self._call_next()

    def slow_down(self, sent_at: float, retry_after: float | None) -> float:
        """The server wants less.

        Args:
            sent_at: when the request that was turned away was sent, by `time.monotonic`.
            retry_after: seconds that the server asks for, if it says; 0 says nothing.
        Returns:
            For how many seconds, the coming pause included, nothing but such answers will have come.
        """
        with self._lock:
            now = time.monotonic()
            self.throttled += 1
            self._successes = 0
            if self._patient_since is None:
                self._patient_since = now
            if sent_at > self._last_cut:
                self._last_cut = now
                self.limit = max(1.0, self.limit * _CUT)
                self.cuts += 1
                self._turned_away_in_a_row += 1
            doublings = min(self._turned_away_in_a_row - 1, _DOUBLINGS)
            guessed = min(_FIRST_WAIT_S * 2**doublings, _LONGEST_GUESSED_WAIT_S)
            self._resume_at = max(self._resume_at, now + (retry_after or guessed))
            return self._resume_at - self._patient_since

    @property
    def _full(self) -> bool:
        return self.in_flight >= int(self.limit)

    def _call_next(self) -> None:
        """Hand the free places to those who wait longest."""
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
                    loop.call_soon_threadsafe(self._hand_over, turn)
                except RuntimeError:  # that loop has ended, and its caller with it
                    self.in_flight -= 1

    def _hand_over(self, turn: "asyncio.Future[None]") -> None:
        if turn.done():
            self.give_back(answered=False)
        else:
            turn.set_result(None)

    def _leave_queue(self, loop: asyncio.AbstractEventLoop, turn: "asyncio.Future[None]") -> None:
        """Who was cancelled while waiting leaves the queue, or passes on the place that was just handed over."""
        with self._lock:
            if (loop, turn) in self._waiters:
                self._waiters.remove((loop, turn))
                return
        if turn.done() and not turn.cancelled():
            self.give_back(answered=False)


def limiter_of(endpoint: Endpoint) -> Limiter:
    """The one limiter of this endpoint and model in this process; the largest cap that was asked for counts."""
    key = (endpoint.url, endpoint.replicas, endpoint.model)
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
