"""Follow pods' logs line by line, across lost connections and from one pod to the next."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from rubricworks.kubernetes.connection import Cluster, Json
from rubricworks.kubernetes.pods import PODS

_PAUSE = 1.0


class LogFollower:
    """Follower of pods' logs in background threads; each line is reported once."""

    def __init__(
        self, cluster: Cluster, container: str, report: Callable[[str], None], *, pause: float = _PAUSE
    ) -> None:
        self._cluster, self._container, self._report, self._pause = cluster, container, report, pause
        self._threads: dict[str, threading.Thread] = {}
        self._stop = threading.Event()

    def follow(self, pod: Json) -> None:
        """Follow a pod's log from its first line; do nothing if it is followed already or has not started."""
        name, phase = pod["metadata"]["name"], (pod.get("status") or {}).get("phase")
        if name in self._threads or phase not in ("Running", "Succeeded", "Failed"):
            return
        thread = threading.Thread(target=self._read, args=(name,), name=f"log of {name}", daemon=True)
        self._threads[name] = thread
        thread.start()

    def close(self, within: float = 10.0) -> None:
        """Wait up to `within` seconds for the rest of the logs, then stop."""
        deadline = time.monotonic() + within
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        self._stop.set()

    def _read(self, name: str) -> None:
        last = ""
        while not self._stop.is_set():
            try:
                is_complete = self._has_ended(name)
                for stamp, line in self._lines(name, last):
                    if stamp > last:
                        last = stamp
                        self._report(line)
                if is_complete:
                    return
            except Exception as error:  # no connection error may stop the training for its log
                if getattr(error, "status", None) == 404:
                    return
            self._stop.wait(self._pause)

    def _lines(self, name: str, since: str) -> Iterator[tuple[str, str]]:
        """Yield (timestamp, text) from the second of the last line on; the API has no finer start."""
        query = {"container": self._container, "follow": "true", "timestamps": "true"}
        query |= {"sinceTime": f"{since[:19]}Z"} if since else {}
        response = self._cluster.stream(f"{PODS}/{name}/log", **query)
        try:
            for line in _split(response):
                stamp, _, text = line.partition(" ")
                yield stamp, text
        finally:
            response.close()

    def _has_ended(self, name: str) -> bool:
        phase = self._cluster.get(f"{PODS}/{name}").get("status", {}).get("phase")
        return phase in ("Succeeded", "Failed")


def _split(response: Any) -> Iterator[str]:
    rest = b""
    for chunk in response.stream(amt=None, decode_content=False):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
    if rest:
        yield rest.decode(errors="replace")
