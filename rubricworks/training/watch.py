"""Monitoring of policy training between updates: rubric refresh, policy probe, reward-hacking alarm."""

import json
import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from transformers import TrainerCallback, TrainerControl, TrainerState

from rubricworks.storage import write_atomic
from rubricworks.training.alarm import HackingAlarm, StepStats, step_stats
from rubricworks.training.config import PolicyConfig
from rubricworks.training.processes import agreed, is_main
from rubricworks.training.rollouts import StepRollouts

logger = logging.getLogger(__name__)


class Generate(Protocol):
    """Captions by the policy as it is at this step: (caption, tokens) per image; temperature 0 is greedy."""

    def __call__(
        self, images: Sequence[bytes], prompts: Sequence[str], *, temperature: float = 0.0, seed: int = 0
    ) -> list[tuple[str, int]]: ...


Refresh = Callable[[int, Generate], None]
"""`refresh(step, generate)` before step + 1: write new rubrics where the reward reads them, by sample id.

It is called again at the same step after a kill, and not for the steps before the checkpoint: keep what was written.
"""

Probe = Callable[[int, Generate], float | None]
"""`probe(step, generate)`: a held-out judge's score of the policy as it is; None when it could not be had."""


class PolicyWatch(TrainerCallback):
    """Collects one `StepStats` per step in a file beside the checkpoints, so that the alarm survives a kill."""

    def __init__(
        self,
        config: PolicyConfig,
        file: Path,
        generate: Generate,
        refresh: Refresh | None,
        probe: Probe | None,
        before_checkpoint: Callable[[], None] | None,
    ) -> None:
        self.config, self.file, self.generate = config, file, generate
        self.refresh, self.probe, self.before_checkpoint = refresh, probe, before_checkpoint
        self.alarm = HackingAlarm(config.alarm)
        self.history: list[StepStats] = []
        self._held_out = math.nan

    @property
    def must_stop(self) -> bool:
        return self.config.alarm.stop and self.alarm.alarm is not None

    def restore(self, step: int) -> None:
        """Take up the statistics of the steps that the checkpoint has behind it, and drop those after it."""
        lines = self.file.read_text().splitlines() if step and self.file.is_file() else []
        for line in lines:
            try:
                values = json.loads(line)
            except ValueError:  # the line that a kill cut off
                break
            figures: dict[str, Any] = {name: math.nan if value is None else value for name, value in values.items()}
            stats = StepStats(**figures)
            if stats.step <= step:
                self.history.append(stats)
                self.alarm.update(stats)
        if is_main():
            write_atomic(self.file, "".join(map(_line, self.history)).encode())

    def take(self, rollouts: StepRollouts) -> None:
        stats = step_stats(rollouts.step, rollouts.responses, rollouts.tokens, rollouts.rewards, self._held_out)
        self._held_out = math.nan
        self.history.append(stats)
        with self.file.open("a") as file:
            file.write(_line(stats))
        if alarm := self.alarm.update(stats):
            logger.warning("%s", alarm)

    def on_step_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        step = state.global_step
        if self.refresh and self.config.refresh_every and step and step % self.config.refresh_every == 0:
            self.refresh(step, self.generate)
        if self.probe and self.config.probe_every and step % self.config.probe_every == 0:
            score = self.probe(step, self.generate)
            self._held_out = math.nan if score is None else score

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        # The main process alone is told of the rollouts.
        if self.config.alarm.stop and agreed(self.must_stop):
            control.should_training_stop = control.should_save = True
        # The trainer's own callback, which decides on checkpoints, stands before those that it is given.
        if control.should_save and self.before_checkpoint:
            self.before_checkpoint()


def _line(stats: StepStats) -> str:
    values = {name: None if math.isnan(value) else value for name, value in stats._asdict().items()}
    return json.dumps(values) + "\n"
