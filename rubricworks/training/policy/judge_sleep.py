"""Judges on the policy's own accelerators, which sleep while its weights are updated.

`serve.NAME.sleep` gives such a judge vLLM's sleep mode: the first loss of a step sends it to sleep, which moves its
weights to the host's memory and drops its cache, and the end of the step wakes it. So it is awake whenever something
may call it: while rollouts are sampled and judged, in a held-out probe, and after the training.
"""

import os
import urllib.request
from typing import Any

from transformers import TrainerCallback

from rubricworks.errors import TransientError
from rubricworks.llm.served import SLEEPING_ENV

_TIMEOUT_S = 300.0


class SleepingJudges(TrainerCallback):
    """The judges that this stage serves with sleep mode; empty in all but one process of a training."""

    def __init__(self, is_main: bool) -> None:
        urls = os.environ.get(SLEEPING_ENV, "").split()
        self._urls = urls if is_main else []
        self._asleep = False

    def sleep(self) -> None:
        """Send the judges to sleep, unless they are asleep.

        Raises:
            TransientError: one of them does not.
        """
        if not self._asleep:
            self._asleep = True
            self._ask("sleep?level=1")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._wake()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._asleep = True  # perhaps: an attempt before may have been killed in an update
        self._wake()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._wake()

    def _wake(self) -> None:
        if self._asleep:
            self._ask("wake_up")
            self._asleep = False

    def _ask(self, what: str) -> None:
        for url in self._urls:
            request = urllib.request.Request(f"{url}/{what}", method="POST")
            try:
                with urllib.request.urlopen(request, timeout=_TIMEOUT_S):
                    pass
            except OSError as error:
                raise TransientError(
                    f"the judge at {url} does not answer {what.partition('?')[0]} ({error}); look at its log, or set "
                    "serve.NAME.sleep to false and give it accelerators of its own"
                ) from error
