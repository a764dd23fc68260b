"""Several servers of one model: each request goes to the one with the fewest in flight.

A server that cannot be reached, or fails three times in a row, is left out for a second, then two, up to half a minute;
after that one request may try it. When all are out, the one that has been out longest is asked.
"""

import time
from dataclasses import dataclass

from yarl import URL

_FAILURES = 3
_FIRST_REST_S = 1.0
_LONGEST_REST_S = 30.0
_DOUBLINGS = 5


@dataclass(eq=False)
class Replica:
    """One server, as one event loop sees it."""

    chat_url: URL
    models_url: URL
    in_flight: int = 0
    failures: int = 0
    """In a row."""
    rests: int = 0
    """In a row: no good answer since the first of them."""
    rested_at: float = 0.0
    """When the last rest began."""
    out_until: float = 0.0

    def succeeded(self) -> None:
        self.failures = self.rests = 0
        self.out_until = 0.0

    def failed(self, sent_at: float, *, unreachable: bool) -> None:
        """A request that was sent then failed; one sent before the last rest began is no news."""
        self.failures += 1
        if sent_at > self.rested_at and (unreachable or self.failures >= _FAILURES or self.rests):
            self.rested_at = time.monotonic()
            self.out_until = self.rested_at + min(_FIRST_REST_S * 2**self.rests, _LONGEST_REST_S)
            self.rests = min(self.rests + 1, _DOUBLINGS)


def choose(replicas: list[Replica]) -> Replica:
    """Where the next request goes."""
    if len(replicas) == 1:
        return replicas[0]
    now = time.monotonic()
    fit = [replica for replica in replicas if replica.out_until <= now]
    if not fit:
        return min(replicas, key=lambda replica: replica.out_until)
    chosen = min(fit, key=lambda replica: replica.in_flight)
    if chosen.rests:
        # One request tries a server that was out; the others stay away until it has answered.
        chosen.out_until = now + _FIRST_REST_S
    return chosen
