"""The log of a pod, line by line while it is written, through lost connections and from one pod to the next."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from rubricworks.kubernetes.connection import Cluster, Json
from rubricworks.kubernetes.pods import PODS

_PAUSE = 1.0


class LogFollower:
    """Says the lines of whichever pod it is told to follow; none is said twice."""

    def __init__(self, cluster: Cluster, container: str, say: Callable[[str], None], *, pause: float = _PAUSE) -> None:
        self._cluster, self._container, self._say, self._pause = cluster, container, say, pause
        self._threads: dict[str, threading.Thread] = {}
        self._ended = threading.Event()

    def follow(self, pod: Json) -> None:
        """From the first line, unless this pod is followed already. One that has not started is left for later."""
        name, phase = pod["metadata"]["name"], (pod.get("status") or {}).get("phase")
        if name in self._threads or phase not in ("Running", "Succeeded", "Failed"):
            return
        thread = threading.Thread(target=self._read, args=(name,), name=f"log of {name}", daemon=True)
        self._threads[name] = thread
        thread.start()

    def close(self, within: float = 10.0) -> None:
        """Hear the rest of what the last pods wrote, but wait no longer than this."""
        until = time.monotonic() + within
        for thread in self._threads.values():
            thread.join(max(0.0, until - time.monotonic()))
        self._ended.set()

    def _read(self, name: str) -> None:
        last = ""
        while not self._ended.is_set():
            try:
                over = self._is_over(name)
                for stamp, line in self._lines(name, last):
                    if stamp > last:
                        last = stamp
                        self._say(line)
                if over:
                    return
            except Exception as error:  # whatever the connection meets, the training is worth more than its log
                if getattr(error, "status", None) == 404:
                    return
            self._ended.wait(self._pause)

    def _lines(self, name: str, since: str) -> Iterator[tuple[str, str]]:
        """Time and text, from the second of the last one on: the API knows no finer start."""
        query = {"container": self._container, "follow": "true", "timestamps": "true"}
        query |= {"sinceTime": f"{since[:19]}Z"} if since else {}
        answer = self._cluster.stream(f"{PODS}/{name}/log", **query)
        try:
            for line in _split(answer):
                stamp, _, text = line.partition(" ")
                yield stamp, text
        finally:
            answer.close()

    def _is_over(self, name: str) -> bool:
        phase = self._cluster.get(f"{PODS}/{name}").get("status", {}).get("phase")
        return phase in ("Succeeded", "Failed")


def _split(answer: Any) -> Iterator[str]:
    rest = b""
    for piece in answer.stream(amt=None, decode_content=False):
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
    if rest:
        yield rest.decode(errors="replace")
