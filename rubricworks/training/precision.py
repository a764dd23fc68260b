"""Whether this machine can train in the precision that a config asks for; asked before any model is loaded."""

import torch

from rubricworks.errors import UserError


def check_bf16(wanted: bool) -> None:
    """Raises UserError where bf16 would be emulated or refused."""
    if not wanted:
        return
    if torch.cuda.is_available():
        if not torch.cuda.is_bf16_supported(including_emulation=False):
            raise UserError(f"bf16: {torch.cuda.get_device_name()} has no bf16 arithmetic; set bf16 to false")
    elif not torch.backends.mps.is_available():
        raise UserError("bf16: there is no GPU here, and bf16 training on a CPU is slower and worse; set bf16 to false")
