"""Processes of a distributed training, as started by torchrun: rank, order of writing, sharing, broadcast."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from typing import Any, TypeVar

from rubricworks.errors import UserError

T = TypeVar("T")

REHEARSAL = "RUBRICWORKS_REHEARSAL"
"""Environment variable of a rehearsal: settings for GPUs are accepted on a CPU, where they run more slowly."""
_WAIT = timedelta(seconds=1800)
"""Timeout of collective operations, set here because Transformers cannot set its own on an initialised group."""


def is_main() -> bool:
    """Return True in the main process, the only one that writes tables, logs and the final model."""
    return os.environ.get("RANK", "0") == "0"


def is_local_main() -> bool:
    """Return True in the first process of each node, the only one that writes files for the others of the node."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def process_count() -> int:
    return int(os.environ.get("WORLD_SIZE") or 1)


def process_index() -> int:
    return int(os.environ.get("RANK") or 0)


def is_sharded() -> bool:
    """Return True if the processes shard the model (FSDP) instead of each keeping a copy."""
    return process_count() > 1 and os.environ.get("ACCELERATE_USE_FSDP", "").lower() in ("1", "true")


def keep_whole() -> None:
    """From here on, keep a copy of the model in each process even if the environment requests shards (FSDP)."""
    os.environ["ACCELERATE_USE_FSDP"] = "false"


def trains_on_cpu() -> bool:
    """Return True if the environment asks for training without accelerators."""
    return os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true")


def is_rehearsal() -> bool:
    """Return True in the processes of a rehearsal."""
    return bool(os.environ.get(REHEARSAL))


def shard_on_cpu() -> None:
    """Let accelerate shard models over processes without accelerators; by itself it does so only over GPUs.

    Each process is told that it has one, and computes on the CPU: sharding, gathering, checkpoints and loading are
    those of FSDP 2 on GPUs, over gloo.
    """
    from accelerate import PartialState
    from accelerate.utils import DistributedType

    initialize: Any = PartialState.__init__
    if hasattr(initialize, "__wrapped__"):
        return

    @wraps(initialize)
    def with_accelerator(self: Any, *args: Any, **options: Any) -> None:
        initialize(self, *args, **options)
        if self.distributed_type == DistributedType.MULTI_CPU and is_sharded():
            self.distributed_type = DistributedType.MULTI_GPU

    PartialState.__init__ = with_accelerator


@contextmanager
def main_process_first() -> Iterator[None]:
    """Run the block in the main process first, then in the first process of each other node, then in the rest.

    Later processes find the files that an earlier one wrote, if the nodes share a folder and if each has its own.
    """
    if process_count() == 1:
        yield
        return
    state = _process_state()
    turn = 0 if state.is_main_process else 1 if state.is_local_main_process else 2
    for _ in range(turn):
        state.wait_for_everyone()
    yield
    for _ in range(turn, 2):
        state.wait_for_everyone()


def broadcast(value: T) -> T:
    """Broadcast the main process's value to all processes."""
    if process_count() == 1:
        return value
    from accelerate.utils import broadcast_object_list

    _process_state()
    values = [value]
    broadcast_object_list(values)
    return values[0]


def own_share(values: Sequence[T]) -> Sequence[T]:
    """Values that fall to this process where all share the work: every n-th."""
    return values[process_index() :: process_count()]


def gather(values: list[T]) -> list[T]:
    """Collect the values of all processes in each of them; returns when the last process has given its own.

    A process waits for half an hour at most.
    """
    if process_count() == 1:
        return values
    from accelerate.utils import gather_object

    _process_state()
    gathered: list[T] = gather_object(values)
    return gathered


def leave() -> None:
    """Leave the group of processes, if this one is in it: its threads may abort a process that ends with them."""
    if (distributed := sys.modules.get("torch.distributed")) and distributed.is_initialized():
        distributed.destroy_process_group()


def _process_state() -> Any:
    """Accelerate's process state, initialised as Transformers reuses it later.

    Raises:
        UserError: the processes do not form one group: no accelerator is visible and ACCELERATE_USE_CPU is not set.
    """
    from accelerate import PartialState

    if is_rehearsal() and trains_on_cpu() and is_sharded():
        shard_on_cpu()
    state = PartialState(cpu=trains_on_cpu(), timeout=_WAIT)
    if state.num_processes != process_count():
        raise UserError(
            f"{process_count()} processes were started, and no accelerator is seen here, so each would train by "
            "itself; look at the node's devices, or set ACCELERATE_USE_CPU=true to train without"
        )
    return state
