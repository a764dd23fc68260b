"""Progress lines of a trainer, one every few steps, in place of progress bars; and the seconds that its steps take."""

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.utils import logging as transformers_logging

from rubricworks.reports.formats import duration

logger = logging.getLogger(__name__)


class StepLog(NamedTuple):
    """Progress of a trainer at a logging step."""

    step: int
    steps: int
    metrics: dict[str, float]
    seconds_per_step: float
    seconds_left: float


class StepLines(TrainerCallback):
    """Callback that logs `warm-up 50/500 · loss 1.23 · 0.18 s/step · 1m21s left` at each logging step.

    Args:
        labels: metric name → label in the line.
        listener: called with each `StepLog`.
    """

    def __init__(self, title: str, labels: dict[str, str], listener: Callable[[StepLog], None] | None = None) -> None:
        self.title, self.labels, self.listener = title, labels, listener

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._step, self._time = state.global_step, time.monotonic()
        if state.global_step:
            logger.info("%s continues after step %d", self.title, state.global_step)

    def on_log(
        self, args: Any, state: TrainerState, control: TrainerControl, logs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        steps = state.global_step - self._step
        if not state.is_world_process_zero or steps < 1:
            return
        now = time.monotonic()
        pace = (now - self._time) / steps
        self._step, self._time = state.global_step, now
        metrics = {name: value for name, value in (logs or {}).items() if isinstance(value, int | float)}
        log = StepLog(state.global_step, state.max_steps, metrics, pace, pace * (state.max_steps - state.global_step))
        figures = [f"{label} {metrics[name]:.3g}" for name, label in self.labels.items() if name in metrics]
        where = f"{self.title} {log.step}/{log.steps}"
        logger.info(" · ".join([where, *figures, f"{pace:.2f} s/step", f"{duration(log.seconds_left)} left"]))
        if self.listener is not None:
            self.listener(log)


class StepTimes(TrainerCallback):
    """Callback that times a policy's steps, by what they wait for: the sampler, the judge, or the trainer's update.

    Judge calls that overlap with sampling count as sampling, so that the parts add up to the step.
    """

    def __init__(self) -> None:
        self._steps, self._began = 0, 0.0
        self._seconds = {"sampler": 0.0, "judge": 0.0, "trainer": 0.0}

    @contextmanager
    def part(self, name: Literal["sampler", "judge"]) -> Iterator[None]:
        """Count the block's time as this part's; the rest of a step is the trainer's."""
        began = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - began
            self._seconds[name] += seconds
            self._seconds["trainer"] -= seconds

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._began = time.monotonic()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._seconds["trainer"] += time.monotonic() - self._began
        self._steps += 1

    def per_step(self) -> dict[str, float]:
        """Part → mean seconds of a step; empty before the first."""
        return {part: round(total / self._steps, 4) for part, total in self._seconds.items()} if self._steps else {}


_NOISE = {
    "transformers.trainer": "missing keys in the checkpoint model loaded: ['lm_head.weight']",  # tied to the embeddings
    "transformers.trainer_utils": "mtime may not be reliable",  # checkpoints are ordered by their steps then
    "trl.trainer.grpo_trainer": "All reward functions returned None",  # prints every column of the row
}


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Silence the progress bars of weight files and the warnings that a user cannot act on."""
    bars_enabled = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    filters = {name: _reject(text) for name, text in _NOISE.items()}
    for name, noise_filter in filters.items():
        logging.getLogger(name).addFilter(noise_filter)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*gradient_checkpointing.*", category=FutureWarning)
            yield
    finally:
        for name, noise_filter in filters.items():
            logging.getLogger(name).removeFilter(noise_filter)
        if bars_enabled:
            transformers_logging.enable_progress_bar()


def _reject(text: str) -> Callable[[logging.LogRecord], bool]:
    return lambda record: text not in record.getMessage()
