"""LoRA: adapters for training, merged into a plain model directory at the end."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin, Trainer

from rubricworks.training.config import LoraOptions
from rubricworks.training.hub_layout import saves_hub_layout
from rubricworks.training.llava.weight_names import hub_name, is_llava_with_clip
from rubricworks.training.progress import quiet_libraries


def add_adapters(model: PreTrainedModel, options: LoraOptions, *, seed: int) -> PeftModel:
    """Add new adapters to the model and freeze its other weights."""
    targets = options.targets if isinstance(options.targets, str) else list(options.targets)
    adapters = LoraConfig(
        r=options.rank,
        lora_alpha=options.alpha,
        lora_dropout=options.dropout,
        target_modules=targets,
        task_type="CAUSAL_LM",
    )
    with quiet_libraries(), torch.random.fork_rng():
        torch.manual_seed(seed)
        return get_peft_model(model, adapters)


def save_trained_model(
    trainer: Trainer, processor: ProcessorMixin | PreTrainedTokenizerBase, out: Path, *, bf16: bool = False
) -> None:
    """Write the trainer's model with `save_plain_model`; all processes must call it.

    Each process contributes its shards, and the main process writes.

    Args:
        bf16: save bfloat16 weights; by default those that the trainer has.
    """
    state = trainer.accelerator.get_state_dict(trainer.model_wrapped) if trainer.is_fsdp_enabled else None
    if trainer.is_world_process_zero():
        model = trainer.accelerator.unwrap_model(trainer.model)
        save_plain_model(model, processor, out, state=state, dtype=torch.bfloat16 if bf16 else None)
    trainer.accelerator.wait_for_everyone()


def save_plain_model(
    model: Any,
    processor: ProcessorMixin | PreTrainedTokenizerBase,
    out: Path,
    *,
    state: dict[str, Any] | None = None,
    dtype: torch.dtype | None = None,
) -> Path:
    """Write a plain Hugging Face model directory atomically, in the layout of the Hub's files.

    Adapters are merged into the weights of `model`, in place.

    Args:
        model: a `PreTrainedModel`, or a `PeftModel` around one.
        state: the gathered weights of a model sharded over processes; the model's own by default.
        dtype: precision of the saved weights; that of the model's by default.
    """
    if isinstance(model, PeftModel):
        model = model.merge_and_unload()
    if dtype is not None:
        state = {name: _cast(weight, dtype) for name, weight in (state or model.state_dict()).items()}
    if is_llava_with_clip(model.config):
        state = {hub_name(name): weight for name, weight in (state or model.state_dict()).items()}
    if state is not None:
        # Gathered and cast weights share no memory, by which Transformers would see that they are tied.
        state = {name: weight for name, weight in state.items() if name not in model.all_tied_weights_keys}
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    with quiet_libraries(), saves_hub_layout(model):
        model.save_pretrained(part, state_dict=state)
        processor.save_pretrained(part)
    if dtype is not None:
        config = part / "config.json"
        config.write_text(json.dumps(_with_dtype(json.loads(config.read_text()), dtype), indent=2) + "\n")
    shutil.rmtree(out, ignore_errors=True)
    part.rename(out)
    return out


def _cast(weight: Any, dtype: torch.dtype) -> Any:
    """Cast a weight in host memory, so that an accelerator holds no second copy."""
    return weight.to("cpu", dtype) if weight.is_floating_point() else weight


def _with_dtype(config: Any, dtype: torch.dtype) -> Any:
    """Model configuration that names this precision, also in its parts."""
    if not isinstance(config, dict):
        return config
    name = str(dtype).removeprefix("torch.")
    return {key: name if key == "dtype" else _with_dtype(value, dtype) for key, value in config.items()}
