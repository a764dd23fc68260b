"""Code that all policy trainings share: folder, checkpoint, statistics, alarm and result."""

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from transformers import TrainerCallback

from rubricworks.data.alarm import Alarm
from rubricworks.training.checkpoints import open_run, train_from
from rubricworks.training.config import PolicyConfig
from rubricworks.training.policy.alarm import StepStats
from rubricworks.training.policy.response_statistics import TEXT_STATISTICS, Statistic
from rubricworks.training.policy.rollouts import StepRollouts
from rubricworks.training.policy.watch import Generate, PolicyWatch, Probe, Refresh
from rubricworks.training.processes import main_process_first
from rubricworks.training.progress import StepLines, StepLog, StepTimes

logger = logging.getLogger(__name__)


class PolicyResult(NamedTuple):
    """Result of a training that is finished or was stopped by the alarm."""

    model_dir: Path
    steps: int
    outcome: Alarm
    """Outcome of the alarm."""
    history: tuple[StepStats, ...]
    step_seconds: Mapping[str, float]
    """`StepTimes.per_step`; empty if no step was left to do."""

    @property
    def alarm(self) -> Alarm | None:
        """The alarm, if it fired."""
        return self.outcome if self.outcome.has_fired else None


@dataclass(frozen=True)
class PolicyRun:
    """Folder of a policy training that was opened by `open_policy_run`."""

    out_dir: Path
    config: PolicyConfig
    checkpoint: Path | None
    """Checkpoint to continue from."""
    watch: PolicyWatch
    on_step: Callable[[StepRollouts], None] | None
    times: StepTimes = field(default_factory=StepTimes)

    @property
    def model_dir(self) -> Path:
        return self.out_dir / "model"

    @property
    def is_trained(self) -> bool:
        """True if the model is there already."""
        return self.model_dir.is_dir()

    def record(self, step: StepRollouts) -> None:
        """Take a step's rollouts: a trainer's `on_rollouts`."""
        self.watch.record(step)
        if self.on_step is not None:
            self.on_step(step)

    def callbacks(self, metrics: dict[str, str], on_log: Callable[[StepLog], None] | None) -> list[TrainerCallback]:
        """Callbacks of the trainer.

        Args:
            metrics: metric name → label in the progress lines.
        """
        return [self.times, StepLines("policy", metrics, on_log), self.watch]  # times first: the others are no step's

    def train(self, trainer: Any) -> None:
        """Train to the end, or to the alarm; then load the policy at its best, if the alarm rolls back."""
        train_from(trainer, self.checkpoint, stopped=self.watch.must_stop)
        if best := self.watch.roll_back_to:
            logger.warning("rolled back to %s, when the policy was last at its best", best.name)
            trainer._load_from_checkpoint(str(best))

    def result(self) -> PolicyResult:
        """The finished training; the history has one entry per generation, at its first step."""
        last = self.watch.history[-1].step if self.watch.history else 0
        if not self.watch.must_stop and last:
            last = min(last + self.config.generation_every - 1, self.config.steps or sys.maxsize)
        history = tuple(self.watch.history)
        return PolicyResult(self.model_dir, last, self.watch.alarm.outcome, history, self.times.per_step())


def open_policy_run(
    out_dir: Path,
    digest: str,
    config: PolicyConfig,
    *,
    generate: Generate,
    refresh: Refresh | None = None,
    probe: Probe | None = None,
    before_checkpoint: Callable[[], None] | None = None,
    statistics: Sequence[Statistic] = TEXT_STATISTICS,
    on_step: Callable[[StepRollouts], None] | None = None,
) -> PolicyRun:
    """Open the folder of the training with this digest; what another training left there is deleted.

    Args:
        generate, refresh, probe, before_checkpoint, statistics: see `watch.PolicyWatch`.
        on_step: receives each step's rollouts.
    """
    with main_process_first():
        checkpoint = open_run(out_dir, digest)
    watch = PolicyWatch(config, out_dir / "steps.jsonl", generate, refresh, probe, before_checkpoint, statistics)
    watch.restore(0 if checkpoint is None else int(checkpoint.name.removeprefix("checkpoint-")))
    return PolicyRun(out_dir, config, checkpoint, watch, on_step)


def schedule(config: PolicyConfig) -> dict[str, Any]:
    """Settings that a checkpoint depends on."""
    return config.model_dump(exclude={"save_every", "log_every", "milestone_every", "watch"})
