"""One stage's work on several pods: the arguments to start it, and the name by which a later attempt finds it."""

import hashlib
import json
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from rubricworks.terminal import say

_LABEL = "rubricworks"
_MAX_STAGE_CHARS = 24
"""Characters of the stage's name in names of objects; Kubernetes' own suffixes must fit below 63."""


class StageWork(NamedTuple):
    """Arguments of `launch`, to start the same stage in other pods."""

    stage: str
    config: str
    run: str
    inputs: Mapping[str, str]

    @property
    def key(self) -> str:
        """Digest of the arguments, so that a later attempt finds the same work and does not repeat it."""
        arguments = [self.stage, self.config, self.run, sorted(self.inputs.items())]
        return hashlib.sha256(json.dumps(arguments).encode()).hexdigest()[:10]

    @property
    def name(self) -> str:
        return f"{self.stage.replace('_', '-')[:_MAX_STAGE_CHARS].strip('-')}-{self.key}"

    @property
    def labels(self) -> dict[str, str]:
        return {
            "app.kubernetes.io/part-of": _LABEL,
            f"{_LABEL}/stage": self.stage.replace("_", "-")[:63],
            f"{_LABEL}/work": self.key,
        }

    def arguments(self, run: str | None = None) -> list[str]:
        """Return the arguments of `python -m rubricworks.runtime`.

        The run is `--run-uri`, because torchrun would take `--run` for an abbreviation of its own option.

        Args:
            run: URI of another run than the work's own.
        """
        inputs = [word for name, uri in self.inputs.items() for word in ("--input", f"{name}={uri}")]
        return [self.stage, "--config", self.config, "--run-uri", run or self.run, *inputs]


def log_line(line: str) -> None:
    say(line)


@contextmanager
def sigterm_as_exit() -> Iterator[None]:
    """Raise SystemExit on SIGTERM, by which Kubernetes stops a pod, so that cleanup code runs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    previous = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
