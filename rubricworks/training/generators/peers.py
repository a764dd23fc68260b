"""Image generators of either kind as RubricRL's supervised peers train them."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from rubricworks.training.config import SftConfig
from rubricworks.training.generators.autoregressive import Pixels
from rubricworks.training.generators.config import ImageSampling
from rubricworks.training.progress import StepLog


class DrawnImages(NamedTuple):
    """N images of a generator."""

    targets: Tensor
    """What the generator is trained to write for them, [N, ...]: codes or latents."""
    images: Iterable[Pixels | None]
    """RGB [height, width, 3] each; None where the decoder fails."""


class SupervisedPeer(Protocol):
    """Generator that is trained on images."""

    def encode(self, images: Pixels) -> Tensor:
        """Targets of RGB images [N, height, width, 3]."""
        ...

    def draw(self, prompts: Sequence[str], *, temperature: float, draw: torch.Generator) -> DrawnImages:
        """Draw one image per prompt."""
        ...

    def train(
        self,
        prompts: Sequence[str],
        targets: Tensor,
        out: Path,
        config: SftConfig,
        *,
        checkpoint: Path | None,
        on_log: Callable[[StepLog], None] | None = None,
    ) -> Path:
        """Train on prompts and the targets of their images, and return `out/model`.

        Args:
            checkpoint: to continue from; None starts anew (`checkpoints.open_run`).
        """
        ...


def load_peer(folder: Path, guidance: float) -> SupervisedPeer:
    """Read a generator.

    Args:
        guidance: of the images that it draws; 1 is none.
    Raises:
        UserError: the folder holds none.
    """
    from rubricworks.training.generators.image_generators import is_flow_generator, load_flow_generator

    if is_flow_generator(folder):
        from rubricworks.training.generators.flow_matching.supervised import FlowPeer

        return FlowPeer(load_flow_generator(folder, ImageSampling()), guidance)
    from rubricworks.training.generators.loading import load_generator
    from rubricworks.training.generators.supervised import CodePeer

    return CodePeer(load_generator(folder), guidance)
