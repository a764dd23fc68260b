"""Checks that this machine supports a config, made before any model is loaded."""

import importlib.util
import os

import torch

from rubricworks.errors import UserError
from rubricworks.training.config import LoraOptions, PolicyConfig, VllmOptions


def check_bf16(wanted: bool) -> None:
    """Raises UserError where bf16 would be emulated or refused."""
    if not wanted:
        return
    if torch.cuda.is_available():
        if not torch.cuda.is_bf16_supported(including_emulation=False):
            raise UserError(f"bf16: {torch.cuda.get_device_name()} has no bf16 arithmetic; set bf16 to false")
    elif not torch.backends.mps.is_available():
        raise UserError("bf16: there is no GPU here, and bf16 training on a CPU is slower and worse; set bf16 to false")


def check_vllm(options: VllmOptions) -> None:
    """Raises UserError where vLLM is wanted and cannot be had."""
    if options.mode == "off":
        return
    if importlib.util.find_spec("vllm") is None:
        raise UserError(f'vllm.mode is {options.mode}, but vllm is not installed: pip install "rubricworks[gpu]"')
    if not torch.cuda.is_available():
        raise UserError(f"vllm.mode is {options.mode}, but there is no GPU here; set vllm.mode to off")


def vllm_url(options: VllmOptions) -> str:
    """URL of the vLLM server for rollouts; a server started with this training takes precedence."""
    return os.environ.get("RUBRICWORKS_VLLM_URL") or options.url


def check_processes(config: PolicyConfig) -> None:
    """Raises UserError for what one process does with the policy while the others train on."""
    several = int(os.environ.get("WORLD_SIZE") or 1) > 1
    sharded = os.environ.get("ACCELERATE_USE_FSDP", "").lower() in ("1", "true")
    if several and config.refresh_every:
        raise UserError(
            "rubrics are rewritten during training on a single process only; set rubric.refresh_every to 0, or train "
            "on one"
        )
    if sharded and config.probe_every:
        raise UserError("the held-out probe needs the policy whole; set policy.probe_every to 0, or train without FSDP")


def check_sharding(lora: LoraOptions | None) -> None:
    """Raises UserError for adapters under FSDP: they could not be merged into a plain model at the end."""
    if lora is not None and os.environ.get("ACCELERATE_USE_FSDP", "").lower() in ("1", "true"):
        raise UserError("lora under FSDP cannot be merged into a plain model; train without FSDP, or without lora")


def rows_per_process(config: PolicyConfig) -> int:
    """Rollouts of a step on each process. TRL's reward functions see those of their own, so it must hold whole groups.

    Raises:
        UserError: the groups do not divide over the processes, or the passes over a process's rollouts.
    """
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    per_process, left_over = divmod(config.group_size * config.prompts_per_step, processes)
    if left_over or per_process % config.group_size:
        raise UserError(
            f"prompts_per_step {config.prompts_per_step} does not divide over {processes} processes; "
            "make it a multiple of their number"
        )
    if config.rows_per_pass is not None and per_process % config.rows_per_pass:
        raise UserError(f"rows_per_pass {config.rows_per_pass} does not divide the {per_process} rollouts per process")
    return per_process
