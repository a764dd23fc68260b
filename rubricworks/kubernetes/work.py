"""One stage's work on several pods: its name, by which a later attempt finds it again, and how it is spoken of."""

import hashlib
import json
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

_LABEL = "rubricworks"
_NAME = 24
"""Characters of a stage's name that go into names; what Kubernetes makes of them must stay below 63."""


class StageWork(NamedTuple):
    """What `launch` was asked for."""

    stage: str
    config: str
    run: str
    inputs: Mapping[str, str]

    @property
    def key(self) -> str:
        """The same for the same work, so that it is found again and not done twice."""
        asked = [self.stage, self.config, self.run, sorted(self.inputs.items())]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:10]

    @property
    def name(self) -> str:
        return f"{self.stage.replace('_', '-')[:_NAME].strip('-')}-{self.key}"

    @property
    def labels(self) -> dict[str, str]:
        return {
            "app.kubernetes.io/part-of": _LABEL,
            f"{_LABEL}/stage": self.stage.replace("_", "-")[:63],
            f"{_LABEL}/work": self.key,
        }

    def arguments(self, run: str | None = None) -> list[str]:
        """For `python -m rubricworks.runtime`. torchrun stands before it, and takes `--run` for the start of its own.

        Args:
            run: another run's URI than the work's own.
        """
        inputs = [word for name, uri in self.inputs.items() for word in ("--input", f"{name}={uri}")]
        return [self.stage, "--config", self.config, "--run-uri", run or self.run, *inputs]


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Kubernetes asks a pod to end by SIGTERM: let it become SystemExit, so that what was begun is cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def words(items: Sequence[str]) -> str:
    """`a, b and 3 more`."""
    shown = ", ".join(items[:3])
    return f"{shown} and {len(items) - 3} more" if len(items) > 3 else shown
