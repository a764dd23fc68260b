"""Arguments of Transformers' trainers for an optimizer and its schedule."""

from typing import Any

from rubricworks.training.config import AdamW, Optimizer
from rubricworks.training.processes import trains_on_cpu

_SCHEDULES = {"constant": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}


def optimizer_arguments(optimizer: AdamW, *, steps: int | None = None) -> dict[str, Any]:
    """Arguments of `TrainingArguments` for an optimizer.

    Args:
        steps: of the training, for a whole number of steps of warm-up; by default the trainer rounds up.
    """
    memory: dict[str, Any] = {}
    if isinstance(optimizer, Optimizer):
        memory = {"bf16": optimizer.autocasts, "activation_checkpointing": optimizer.gradient_checkpointing}
        if optimizer.autocasts and trains_on_cpu():
            memory["use_cpu"] = True  # without it Transformers refuses bfloat16
    return {
        "learning_rate": optimizer.learning_rate,
        "lr_scheduler_type": _SCHEDULES[optimizer.schedule],
        "warmup_steps": optimizer.warmup if steps is None else round(optimizer.warmup * steps),
        "weight_decay": optimizer.weight_decay,
        "max_grad_norm": optimizer.max_grad_norm,
        "adam_beta1": optimizer.betas[0],
        "adam_beta2": optimizer.betas[1],
        "optim": "adamw_torch_fused",
        **memory,
    }
