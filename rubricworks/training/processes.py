"""A training on several processes, as torchrun starts them: which one this is, and whose turn it is to write."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

from rubricworks.errors import UserError

T = TypeVar("T")

_WAIT = timedelta(seconds=1800)
"""For one another; Transformers' own, which it could not set any more."""


def is_main() -> bool:
    """Return True in the main process, which alone writes tables, logs and the final model."""
    return os.environ.get("RANK", "0") == "0"


def processes() -> int:
    return int(os.environ.get("WORLD_SIZE") or 1)


@contextmanager
def in_turn() -> Iterator[None]:
    """The main process goes first, then the first of each other node, then the rest.

    So what one lays down, those that share its folder find; nodes may share a folder or have one each.
    """
    if processes() == 1:
        yield
        return
    state = _joined()
    mine = 0 if state.is_main_process else 1 if state.is_local_main_process else 2
    for _ in range(mine):
        state.wait_for_everyone()
    yield
    for _ in range(mine, 2):
        state.wait_for_everyone()


def agreed(on_main: T) -> T:
    """Broadcast the main process's value to all processes."""
    if processes() == 1:
        return on_main
    from accelerate.utils import broadcast_object_list

    _joined()
    said = [on_main]
    broadcast_object_list(said)
    return said[0]


def _joined() -> Any:
    """The processes, joined as Transformers will find them.

    Raises:
        UserError: each would train by itself, as it does where no accelerator is seen and nobody said that none is.
    """
    from accelerate import PartialState

    on_cpu = os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true")
    state = PartialState(cpu=on_cpu, timeout=_WAIT)
    if state.num_processes != processes():
        raise UserError(
            f"{processes()} processes were started, and no accelerator is seen here, so each would train by itself; "
            "look at the node's devices, or set ACCELERATE_USE_CPU=true to train without"
        )
    return state
