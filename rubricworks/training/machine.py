"""This machine, before any model is loaded: checks that it supports a training, and settings of its allocator."""

import ctypes
import importlib.util
import os
import platform

import torch

from rubricworks.errors import UserError
from rubricworks.training.config import LoraOptions, Optimizer, PolicyConfig, SftConfig, VllmOptions, VllmServer
from rubricworks.training.processes import is_rehearsal, is_sharded, process_count

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3


def check_precision(optimizer: Optimizer) -> None:
    """Raise UserError if bfloat16 is set and this machine lacks its arithmetic."""
    if optimizer.precision == "float32":
        return
    setting = f"optimizer.precision is {optimizer.precision}"
    if torch.cuda.is_available():
        if not torch.cuda.is_bf16_supported(including_emulation=False):
            raise UserError(f"{setting}: {torch.cuda.get_device_name()} has no bfloat16 arithmetic; set it to float32")
    elif not torch.backends.mps.is_available() and not is_rehearsal():
        raise UserError(
            f"{setting}: there is no GPU here, and bfloat16 training on a CPU is slower and worse; set it to float32"
        )


def check_one_gpu_per_process() -> None:
    """Raise UserError if one process sees several GPUs, on which Transformers would train with DataParallel."""
    if process_count() == 1 and (count := torch.cuda.device_count()) > 1:
        raise UserError(
            f"one process sees {count} GPUs, and would train on all of them at {count} times the batch; set "
            f"RUBRICWORKS_ACCELERATORS={count} for a process on each, or CUDA_VISIBLE_DEVICES=0 for one GPU"
        )


def check_vllm(options: VllmOptions | None) -> None:
    """Raise UserError if vLLM is set and is not installed or has no GPU."""
    if options is None:
        return
    if importlib.util.find_spec("vllm") is None:
        raise UserError(f'vllm.mode is {options.mode}, but vllm is not installed: pip install "rubricworks[gpu]"')
    if not torch.cuda.is_available() and not is_rehearsal():
        raise UserError(f"vllm.mode is {options.mode}, but there is no GPU here; leave vllm out")


def vllm_url(options: VllmServer) -> str:
    """URL of the vLLM server for rollouts; a server started with this training takes precedence."""
    return os.environ.get("RUBRICWORKS_VLLM_URL") or options.url


def check_whole_policy(refresh: object, probe: object) -> None:
    """Raise UserError for hooks that caption with the whole policy, since FSDP gives each process only a part of it."""
    if is_sharded() and refresh is not None:
        raise UserError("the rubric refresh needs the policy whole; leave out refresh, or train without FSDP")
    if is_sharded() and probe is not None:
        raise UserError("the held-out probe needs the policy whole; leave out watch.probe, or train without FSDP")


def check_sharding(lora: LoraOptions | None) -> None:
    """Raise UserError for adapters under FSDP, which cannot be merged into a plain model at the end."""
    if lora is not None and is_sharded():
        raise UserError("lora under FSDP cannot be merged into a plain model; train without FSDP, or without lora")


def rows_per_process(config: PolicyConfig) -> int:
    """Rollouts of a step on each process: whole groups, as TRL's reward functions see only their own process's rows.

    Raises:
        UserError: the groups do not divide over the processes, or rows_per_pass does not divide a process's rollouts.
    """
    processes, rollouts = process_count(), config.rollouts
    per_process, remainder = divmod(rollouts.group_size * rollouts.prompts_per_step, processes)
    if remainder or per_process % rollouts.group_size:
        raise UserError(
            f"prompts_per_step {rollouts.prompts_per_step} does not divide over {processes} processes; "
            "make it a multiple of their number"
        )
    rows = config.optimizer.rows_per_pass
    if rows is not None and per_process % rows:
        raise UserError(f"rows_per_pass {rows} does not divide the {per_process} rollouts per process")
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
    rows = config.optimizer.rows_per_pass
    if rows is not None and per_process % rows:
        examples = f"the {per_process} examples per process" if processes > 1 else f"batch_size {config.batch_size}"
        raise UserError(f"rows_per_pass {rows} does not divide {examples}; make it a divisor")
    return per_process


def keep_freed_memory() -> bool:
    """Keep the memory freed by one training step for the next one; return False if the C library is not glibc.

    With glibc's defaults every large activation on a CPU is a separate `mmap`: its pages return to the system after use
    and are faulted in again by the next step. For the laptop student this costs about a tenth of a step, and up to half
    a step at the start of a run, before glibc adapts its threshold.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all(
        mallopt(option, size) == 1
        for option, size in ((_M_MMAP_THRESHOLD, 2**30), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, 64 * 2**20))
    )
