"""Milestones: copies of the policy at fixed step intervals, as plain model directories (Figure 2 of RLR³).

All milestones are kept; of the trainer's checkpoints, which include the optimizer, two are.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from rubricworks.training.checkpoints import MILESTONES


class Milestones(TrainerCallback):
    """Callback that saves the model every `every` steps; a step repeated after a kill is saved again."""

    def __init__(self, every: int, out_dir: Path, save: Callable[[Path], None]) -> None:
        """
        Args:
            save: writes the current model to a folder atomically.
        """
        self.every, self.folder, self.save = every, out_dir / MILESTONES, save

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.global_step % self.every == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.save(self.folder / f"step-{state.global_step:06d}")
