"""Whether the accelerators that a pod was given can be used: asked before anything is loaded onto them."""

import importlib.util
import os

from rubricworks.errors import UserError

ASKED_FOR = "RUBRICWORKS_ACCELERATORS"
"""How many a stage was placed with; without it nothing is asked."""
NODE = "RUBRICWORKS_NODE"
"""Where, for the error."""


def require_accelerators() -> list[str]:
    """The names of those that answer.

    Raises:
        UserError: fewer answer than the stage was placed with.
    """
    if not (asked := int(os.environ.get(ASKED_FOR) or 0)):
        return []
    if importlib.util.find_spec("torch") is None:
        raise UserError(f"{asked} accelerators were asked for, and this image has no torch to use them; take `trainer`")
    import torch

    where = f"on node {os.environ[NODE]}" if os.environ.get(NODE) else "in this pod"
    try:
        names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        for number in range(len(names)):
            torch.zeros(1, device=f"cuda:{number}")
    except RuntimeError as error:
        raise UserError(
            f"an accelerator {where} does not work ({str(error).splitlines()[0]}); look at the node's driver, or keep "
            "pods off it"
        ) from error
    if len(names) < asked:
        raise UserError(
            f"{asked} accelerators were asked for and {len(names)} can be seen {where}; look at the pool's resource "
            "name, at its device plugin and at the driver that the image needs"
        )
    return names
