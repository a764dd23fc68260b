"""Checks that this machine supports a training config, before any model is loaded."""

import importlib.util
import os

import torch

from rubricworks.errors import UserError
from rubricworks.training.config import LoraOptions, PolicyConfig, SftConfig, VllmOptions
from rubricworks.training.processes import is_sharded, process_count


def check_bf16(bf16: bool) -> None:
    """Raise UserError if bf16 is set and this machine lacks bf16 arithmetic."""
    if not bf16:
        return
    if torch.cuda.is_available():
        if not torch.cuda.is_bf16_supported(including_emulation=False):
            raise UserError(f"bf16: {torch.cuda.get_device_name()} has no bf16 arithmetic; set bf16 to false")
    elif not torch.backends.mps.is_available():
        raise UserError("bf16: there is no GPU here, and bf16 training on a CPU is slower and worse; set bf16 to false")


def autocasts(config: SftConfig | PolicyConfig) -> bool:
    """Return True if float32 weights, or adapters, are trained with bfloat16 arithmetic."""
    return config.bf16 and (config.master_weights or config.lora is not None)


def check_one_gpu_per_process() -> None:
    """Raise UserError if one process sees several GPUs, on which Transformers would train with DataParallel."""
    if process_count() == 1 and (count := torch.cuda.device_count()) > 1:
        raise UserError(
            f"one process sees {count} GPUs, and would train on all of them at {count} times the batch; set "
            f"RUBRICWORKS_ACCELERATORS={count} for a process on each, or CUDA_VISIBLE_DEVICES=0 for one GPU"
        )


def check_vllm(options: VllmOptions) -> None:
    """Raise UserError if vLLM is set and is not installed or has no GPU."""
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
    """Raise UserError for options that caption with the policy whole, of which FSDP gives each process a part."""
    if is_sharded() and config.refresh_every:
        raise UserError(
            "the rubric refresh needs the policy whole; set rubric.refresh_every to 0, or train without FSDP"
        )
    if is_sharded() and config.probe_every:
        raise UserError("the held-out probe needs the policy whole; set policy.probe_every to 0, or train without FSDP")


def check_sharding(lora: LoraOptions | None) -> None:
    """Raise UserError for adapters under FSDP, which cannot be merged into a plain model at the end."""
    if lora is not None and is_sharded():
        raise UserError("lora under FSDP cannot be merged into a plain model; train without FSDP, or without lora")


def rows_per_process(config: PolicyConfig) -> int:
    """Rollouts of a step on each process: whole groups, as TRL's reward functions see only their own process's rows.

    Raises:
        UserError: the groups do not divide over the processes, or rows_per_pass does not divide a process's rollouts.
    """
    processes = process_count()
    per_process, remainder = divmod(config.group_size * config.prompts_per_step, processes)
    if remainder or per_process % config.group_size:
        raise UserError(
            f"prompts_per_step {config.prompts_per_step} does not divide over {processes} processes; "
            "make it a multiple of their number"
        )
    if config.rows_per_pass is not None and per_process % config.rows_per_pass:
        raise UserError(f"rows_per_pass {config.rows_per_pass} does not divide the {per_process} rollouts per process")
    return per_process


def examples_per_process(config: SftConfig) -> int:
    """Examples of an optimizer step on each process.

    Raises:
        UserError: batch_size does not divide over the processes, or rows_per_pass does not divide a process's examples.
    """
    processes = process_count()
    per_process, remainder = divmod(config.batch_size, processes)
    if remainder:
        raise UserError(
            f"batch_size {config.batch_size} does not divide over {processes} processes; make it a multiple of their "
            "number"
        )
    if config.rows_per_pass is not None and per_process % config.rows_per_pass:
        examples = f"the {per_process} examples per process" if processes > 1 else f"batch_size {config.batch_size}"
        raise UserError(f"rows_per_pass {config.rows_per_pass} does not divide {examples}; make it a divisor")
    return per_process
