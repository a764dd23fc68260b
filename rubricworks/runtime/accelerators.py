"""Check of a pod's accelerators, made before anything is loaded onto them."""

import importlib.util
import os

from rubricworks.errors import TransientError, UserError
from rubricworks.training.processes import trains_on_cpu

ACCELERATORS_ENV = "RUBRICWORKS_ACCELERATORS"
"""Environment variable: accelerators that the stage was placed with; without it nothing is checked."""
NODE_ENV = "RUBRICWORKS_NODE"
"""Environment variable: the node's name, for the error message."""


def require_accelerators() -> list[str]:
    """Return the device names of the accelerators after one allocation on each.

    A process of a training allocates on its own accelerator only, and on none if ACCELERATE_USE_CPU is set.

    Raises:
        UserError: an accelerator does not work, or there are fewer than the stage was placed with.
    """
    if not (count := int(os.environ.get(ACCELERATORS_ENV) or 0)) or trains_on_cpu():
        return []
    if importlib.util.find_spec("torch") is None:
        raise UserError(f"{count} accelerators were asked for, and this image has no torch to use them; take `trainer`")
    import torch

    where = f"on node {os.environ[NODE_ENV]}" if os.environ.get(NODE_ENV) else "in this pod"
    try:
        names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        own = os.environ.get("LOCAL_RANK")
        for number in range(len(names)) if own is None else [int(own)]:
            torch.zeros(1, device=f"cuda:{number}")
    except RuntimeError as error:
        raise TransientError(
            f"an accelerator {where} does not work ({str(error).splitlines()[0]}); look at the node's driver, or keep "
            "pods off it"
        ) from error
    if len(names) < count:
        raise TransientError(
            f"{count} accelerators were asked for and {len(names)} can be seen {where}; look at the pool's resource "
            "name, at its device plugin and at the driver that the image needs"
        )
    return names
