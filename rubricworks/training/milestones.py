"""The policy as it was every so many steps, each a plain model directory: what Figure 2 of RLR³ is drawn from.

Unlike the trainer's checkpoints, which hold the optimizer and of which two are kept, all of them stay.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from rubricworks.training.checkpoints import MILESTONES


class Milestones(TrainerCallback):
    """Saves the model every so many steps; a step that is repeated after a kill is saved again."""

    def __init__(self, every: int, out_dir: Path, save: Callable[[Path], None]) -> None:
        """
        Args:
            save: writes the model as it is to a folder, whole or not at all.
        """
        self.every, self.folder, self.save = every, out_dir / MILESTONES, save

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.global_step % self.every == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.save(self.folder / f"step-{state.global_step:06d}")
