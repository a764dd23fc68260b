"""Weights from a training to vLLM's server over gloo, where there is no GPU for NCCL.

A plugin of vLLM (`vllm.general_plugins`) that the server's processes load; `use_gloo` does the same in the training's.
Only the broadcast itself is another: announcing, packing, receiving and loading are TRL's and vLLM's own.
"""

from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.distributed import ProcessGroupGloo, TCPStore

PLUGIN = "gloo_weights"
_TIMEOUT = timedelta(minutes=5)


class GlooCommunicator:
    """What the transfer uses of vLLM's `PyNcclCommunicator`."""

    def __init__(self, address: str, port: int, rank: int, size: int, device: Any = None) -> None:
        store = TCPStore(address, port, size, is_master=rank == 0, timeout=_TIMEOUT)
        self._processes = ProcessGroupGloo(store, rank, size, _TIMEOUT)
        self.group = SimpleNamespace(store=store, socket=None)

    def broadcast(self, tensor: torch.Tensor, src: int, stream: Any = None) -> None:
        """Send a tensor from a rank to the others, in place."""
        self._processes.broadcast([tensor], torch.distributed.BroadcastOptions()).wait()


class _NoStream:
    def synchronize(self) -> None:
        """Nothing runs beside the CPU."""


def use_gloo() -> None:
    """Replace NCCL, and the streams around it, in this process, and keep weights as they come."""
    from vllm.distributed.weight_transfer import nccl_common, packed_tensor

    from rubricworks.training.policy.vllm_rollouts import keep_weights_on_cpu

    keep_weights_on_cpu()
    nccl_common.stateless_init_process_group = GlooCommunicator
    packed_tensor._get_streams = lambda device, count: (_NoStream(),) * count
    torch.accelerator.current_device_index = lambda: 0
    torch.cuda.stream = lambda stream: nullcontext()


def install_plugin(folder: Path) -> Path:
    """Write the distribution that announces this module to vLLM; its folder belongs on the server's PYTHONPATH."""
    metadata = folder / f"{PLUGIN}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PLUGIN}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[vllm.general_plugins]\n{PLUGIN} = {PLUGIN}:use_gloo\n")
    return folder
