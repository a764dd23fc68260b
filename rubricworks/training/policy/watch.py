"""Monitoring of policy training between updates: rubric refresh, held-out probe, reward-hacking alarm."""

import json
import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from transformers import TrainerCallback, TrainerControl, TrainerState

from rubricworks.storage import write_atomic
from rubricworks.training.config import PolicyConfig
from rubricworks.training.policy.alarm import HackingAlarm, StepStats, read_step, step_stats
from rubricworks.training.policy.response_statistics import TEXT_STATISTICS, Statistic
from rubricworks.training.policy.rollouts import StepRollouts
from rubricworks.training.processes import broadcast, is_main

logger = logging.getLogger(__name__)


class Generate(Protocol):
    """Caption images with the policy of this step; return (caption, tokens) per image. Temperature 0 is greedy."""

    def __call__(
        self, images: Sequence[bytes], prompts: Sequence[str], *, temperature: float = 0.0, seed: int = 0
    ) -> list[tuple[str, int]]: ...


class Refresh(Protocol):
    """Writer of new rubrics where the reward reads them, by sample id, called every so many steps.

    Every process calls it at the same step, with a whole copy of the policy, and each must end with the same rubrics.
    After a kill it is called again at the same step, but not for steps before the checkpoint, whose rubrics must
    persist.
    """

    every: int

    def __call__(self, step: int, generate: Generate) -> None:
        """Write the rubrics of step + 1."""
        ...

    def restore(self, step: int) -> None:
        """Load the rubrics of a step, for a training that resumes there."""
        ...


class Probe(Protocol):
    """Held-out judge, called every so many steps."""

    @property
    def every(self) -> int: ...

    def __call__(self, step: int, generate: Generate) -> list[float | None]:
        """Scores of the current policy, one per sample, always of the same ones; None where the judge failed."""
        ...


class PolicyWatch(TrainerCallback):
    """Callback that writes one `StepStats` per step beside the checkpoints, so that the alarm survives a kill."""

    def __init__(
        self,
        config: PolicyConfig,
        file: Path,
        generate: Generate,
        refresh: Refresh | None,
        probe: Probe | None,
        before_checkpoint: Callable[[], None] | None,
        statistics: Sequence[Statistic] = TEXT_STATISTICS,
    ) -> None:
        self.config, self.file, self.generate = config, file, generate
        self.refresh, self.probe, self.before_checkpoint = refresh, probe, before_checkpoint
        self.alarm = HackingAlarm(statistics, probe_every=probe.every if probe else None)
        self.history: list[StepStats] = []
        self._held_out: list[float | None] = []

    @property
    def must_stop(self) -> bool:
        return self.config.watch.on_alarm != "warn" and self.alarm.alarm is not None

    @property
    def roll_back_to(self) -> Path | None:
        """Checkpoint of the best policy, one step after its probe; None unless the alarm rolls back."""
        fired = broadcast(self.alarm.alarm)
        if self.config.watch.on_alarm != "roll_back" or fired is None or fired.onset is None:
            return None
        return _checkpoint(self.file.parent, fired.onset + 1)

    def restore(self, step: int) -> None:
        """Read the statistics of the steps up to the checkpoint's and drop those after it."""
        lines = self.file.read_text().splitlines() if step and self.file.is_file() else []
        for line in lines:
            try:
                values = json.loads(line)
            except ValueError:  # a line cut off by a kill
                break
            stats = read_step(values)
            if stats.step <= step:
                self.history.append(stats)
                self.alarm.update(stats)
        if is_main():
            write_atomic(self.file, "".join(map(_line, self.history)).encode())

    def record(self, rollouts: StepRollouts) -> None:
        of_step = (rollouts.step, rollouts.responses, rollouts.tokens, rollouts.rewards)
        stats = step_stats(*of_step, self._held_out, self.alarm.statistics, self.config.rollouts.group_size)
        self._held_out = []
        self.history.append(stats)
        with self.file.open("a") as file:
            file.write(_line(stats))
        if alarm := self.alarm.update(stats):
            logger.warning("reward hacking suspected at %s", alarm)

    def on_step_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        step = state.global_step
        if self.refresh and step and step % self.refresh.every == 0:
            self.refresh(step, self.generate)
        if not state.is_world_process_zero:
            return
        if self.probe and step % self.probe.every == 0:
            self._held_out = self.probe(step, self.generate)

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        # Only the main process receives the rollouts.
        if self.config.watch.on_alarm == "roll_back" and broadcast(self.alarm.best_step == state.global_step - 1):
            control.should_save = True
            # The trainer deletes old checkpoints, and not the one of this name.
            state.best_model_checkpoint = str(_checkpoint(args.output_dir, state.global_step))
        if self.config.watch.on_alarm != "warn" and broadcast(self.must_stop):
            control.should_training_stop = control.should_save = True
        # The trainer's own callback, which sets should_save, runs before this one.
        if control.should_save and self.before_checkpoint:
            self.before_checkpoint()


def _checkpoint(folder: str | Path, step: int) -> Path:
    return Path(folder) / f"checkpoint-{step}"


def _line(stats: StepStats) -> str:
    figures = {"reward": stats.reward, **stats.values}
    plain = {name: None if math.isnan(value) else value for name, value in figures.items()}
    return json.dumps({"step": stats.step, **plain, "held_out": list(stats.held_out) or None}) + "\n"
