"""Requests counted by caller within a minute, in this process, to refuse those who ask far too often."""

import time
from collections import OrderedDict

_SECONDS = 60
_MOST_CALLERS = 10_000


class RequestCounts:
    """Counts of one kind of request; each caller's minute begins with its first request."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def add(self, caller: str) -> int:
        """Count a request; return how many the caller has made in its minute."""
        now = time.monotonic()
        begin, count = self._counts.pop(caller, (now, 0))
        if now - begin >= _SECONDS:
            begin, count = now, 0
        self._counts[caller] = (begin, count + 1)
        while len(self._counts) > _MOST_CALLERS:
            self._counts.popitem(last=False)
        return count + 1

    def wait(self, caller: str) -> int:
        """Seconds until the caller's next minute begins, at least 1."""
        begin, _ = self._counts.get(caller, (time.monotonic() - _SECONDS, 0))
        return max(1, round(begin + _SECONDS - time.monotonic()))
