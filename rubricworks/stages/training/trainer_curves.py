"""Curves of a trainer for pages: entropy, KL, learning rate, memory and speed at each logging step.

state/STAGE/curves.jsonl    a line per logging step; of two lines of a step, which a resumed training writes, the last
"""

import json
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rubricworks.runtime.store.run_state import CURVES_FILE, STATE

if TYPE_CHECKING:
    from rubricworks.training.progress import StepLog

_NAMES = {
    "entropy": "entropy",
    "kl": "kl",
    "learning_rate": "learning_rate",
    "loss": "loss",
    "held_out_loss": "held_out_loss",
    "grad_norm": "grad_norm",
    "frac_reward_zero_std": "zero_spread",
    "drift": "drift",
}
"""Metric of a trainer → name of its curve."""
_TOKENS = "num_tokens"
"""Metric that counts the tokens since the training's start."""


class TrainerCurves:
    """Curves of one stage. If they cannot be written, the stage continues."""

    def __init__(self, run: Path, stage: str) -> None:
        self._path = run / STATE / stage / CURVES_FILE
        self._step, self._tokens = 0, 0.0

    def add(self, line: "StepLog") -> None:
        """Append the figures of a logging step."""
        figures = {name: line.metrics[metric] for metric, name in _NAMES.items() if metric in line.metrics}
        figures |= self._speed(line.step, line.metrics, line.seconds_per_step)
        figures["memory_gb"] = memory_gb()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps({"step": line.step, **figures}) + "\n")
        except OSError:
            return

    def _speed(self, step: int, metrics: Mapping[str, float], seconds_per_step: float) -> dict[str, float]:
        tokens, before = metrics.get(_TOKENS, 0.0), self._tokens
        steps, self._step, self._tokens = step - self._step, step, tokens
        if not before or tokens <= before or steps < 1 or seconds_per_step <= 0:
            return {}
        return {"tokens_per_second": (tokens - before) / (steps * seconds_per_step)}


def memory_gb() -> float:
    """Peak memory so far in GB, of the accelerator if one is used, or else of this process."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return float(torch.cuda.max_memory_allocated()) / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
