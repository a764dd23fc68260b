"""Load balancing over several servers of one model: each request goes to the one with the fewest in flight.

A server that is unreachable, or fails three times in a row, is taken out for a second, then two, up to half a minute;
after that, one request may try it. If all are out, the one whose outage ends first is used.
"""

import time
from dataclasses import dataclass

from yarl import URL

_FAILURES_TO_OUTAGE = 3
_FIRST_OUTAGE_S = 1.0
_MAX_OUTAGE_S = 30.0
_MAX_DOUBLINGS = 5


@dataclass(eq=False)
class Replica:
    """State of one server, per event loop."""

    chat_url: URL
    models_url: URL
    in_flight: int = 0
    failures: int = 0
    """Consecutive failures."""
    outages: int = 0
    """Consecutive outages, without a valid answer between them."""
    outage_started: float = 0.0
    """Start of the last outage, by `time.monotonic`."""
    retry_at: float = 0.0

    def record_success(self) -> None:
        self.failures = self.outages = 0
        self.retry_at = 0.0

    def record_failure(self, sent_at: float, *, unreachable: bool) -> None:
        """Count a failed request; one sent before the last outage started does not start another."""
        self.failures += 1
        if sent_at > self.outage_started and (unreachable or self.failures >= _FAILURES_TO_OUTAGE or self.outages):
            self.outage_started = time.monotonic()
            self.retry_at = self.outage_started + min(_FIRST_OUTAGE_S * 2**self.outages, _MAX_OUTAGE_S)
            self.outages = min(self.outages + 1, _MAX_DOUBLINGS)


def choose_replica(replicas: list[Replica]) -> Replica:
    """Choose the server of the next request."""
    if len(replicas) == 1:
        return replicas[0]
    now = time.monotonic()
    available = [replica for replica in replicas if replica.retry_at <= now]
    if not available:
        return min(replicas, key=lambda replica: replica.retry_at)
    replica = min(available, key=lambda replica: replica.in_flight)
    if replica.outages:
        # One request tries a server after an outage; the others avoid it until it has answered.
        replica.retry_at = now + _FIRST_OUTAGE_S
    return replica
