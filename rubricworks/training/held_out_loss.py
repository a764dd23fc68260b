"""Stop of a supervised training when the loss on held-out examples rises, with the weights of its minimum.

The loss is measured every `log_every` steps. After two measures in a row that are more than one percent above the
lowest, the training stops and the weights of the lowest are put back. A training whose loss never rises so ends as it
would without the measures: they draw no random numbers.
"""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState

from rubricworks.training.processes import broadcast, is_main

logger = logging.getLogger(__name__)

HELD_OUT_LOSS = "held_out_loss"
"""Its name in a trainer's log."""
MOST = 128
"""Held-out examples that are measured."""
_RISE = 1.01
"""Multiple of the lowest loss above which a measure counts as risen."""
_PATIENCE = 2


class StopAtLowestLoss(TrainerCallback):
    """Callback that measures the loss, stops the training, and keeps the best weights in memory and with the
    checkpoints.

    Args:
        folder: of the training's checkpoints.
        examples: held-out examples, of which the first `MOST` are measured.
        every: steps between two measures, and two lines of the log.
    """

    def __init__(self, title: str, folder: Path, examples: Sequence[Any], every: int) -> None:
        self.title, self.folder, self.every = title, folder, every
        self.examples = list(examples)[:MOST]
        self.trainer: Trainer | None = None
        self.loss = float("nan")
        """The last measure."""
        self.lowest, self.step, self.rises = float("inf"), 0, 0
        self._weights: dict[str, torch.Tensor] = {}

    @property
    def has_stopped(self) -> bool:
        return self.rises >= _PATIENCE

    def load(self, checkpoint: Path) -> None:
        """Take up the measures that were made up to a checkpoint."""
        from safetensors import safe_open

        with safe_open(self._file(checkpoint.name.rpartition("-")[2]), framework="pt") as stored:
            measures = json.loads(stored.metadata()["measures"])
            self._weights = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - no dictionary
        self.lowest, self.step, self.rises = measures["lowest"], measures["step"], measures["rises"]

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.global_step % self.every == 0:
            self._measure(state)
        control.should_training_stop |= self.has_stopped
        if control.should_save and is_main():  # before the checkpoint, which is then never without it
            self._store(state.global_step)

    def on_log(
        self, args: Any, state: TrainerState, control: TrainerControl, logs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Add the measure to the line that callbacks after this one write."""
        if logs is not None and state.global_step % self.every == 0 and "loss" in logs:
            logs[HELD_OUT_LOSS] = self.loss

    def restore(self, model: torch.nn.Module) -> None:
        """Put the weights of the lowest loss back, if the training was stopped."""
        if not self.has_stopped:
            return
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name in self._weights:
                    parameter.copy_(self._weights[name])
        logger.info(
            "%s stopped: the loss on held-out samples was lowest at step %d (%.3g), whose weights are kept",
            self.title, self.step, self.lowest,
        )  # fmt: skip

    def _measure(self, state: TrainerState) -> None:
        assert self.trainer is not None
        loss = self.loss = broadcast(_loss(self.trainer, self.examples))
        if loss < self.lowest:
            self.lowest, self.step, self.rises = loss, state.global_step, 0
            model: Any = self.trainer.model
            trained = ((name, value) for name, value in model.named_parameters() if value.requires_grad)
            self._weights = {name: value.detach().to("cpu", copy=True).contiguous() for name, value in trained}
        else:
            self.rises = self.rises + 1 if loss > self.lowest * _RISE else 0

    def _store(self, step: int) -> None:
        from safetensors.torch import save_file

        measures = {"lowest": self.lowest, "step": self.step, "rises": self.rises}
        save_file(self._weights, self._file(step), metadata={"measures": json.dumps(measures)})
        steps = {path.name.rpartition("-")[2] for path in self.folder.glob("checkpoint-*")}
        for path in self.folder.glob("lowest-*.safetensors"):
            if path.stem.rpartition("-")[2] not in {*steps, str(step)}:
                path.unlink()

    def _file(self, step: int | str) -> Path:
        return self.folder / f"lowest-{step}.safetensors"


def _loss(trainer: Trainer, examples: Sequence[Any]) -> float:
    """Mean loss per answer token; the model and all random states are left as they were."""
    model: Any = trainer.model
    collate: Any = trainer.data_collator
    total, tokens = 0.0, 0
    was_training = model.training
    model.eval()
    size = trainer.args.per_device_train_batch_size
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.no_grad(), trainer.compute_loss_context_manager():
        for start in range(0, len(examples), size):
            batch = trainer._prepare_inputs(collate(examples[start : start + size]))
            count = int((batch["labels"][:, 1:] != -100).sum())
            loss: Any = trainer.compute_loss(model, batch)
            total += float(loss) * count
            tokens += count
    model.train(was_training)
    return total / tokens
