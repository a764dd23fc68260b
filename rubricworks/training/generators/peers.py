"""Image generators of either kind as RubricRL's supervised peers train them."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from rubricworks.training.generators.config import ImageSftConfig
from rubricworks.training.generators.image_tokenizer import Pixels
from rubricworks.training.progress import StepLog


class DrawnImages(NamedTuple):
    """N images of a generator."""

    targets: Tensor
    """Codes or latents [N, ...] that the generator is trained to write for them."""
    images: Iterable[Pixels | None]
    """RGB [height, width, 3] each; None where the decoder fails."""


class SupervisedPeer(Protocol):
    """Generator that is trained on images."""

    @property
    def random_device(self) -> torch.device:
        """Device of the random generator that `draw` takes."""
        ...

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
        config: ImageSftConfig,
        *,
        seed: int,
        checkpoint: Path | None,
        on_log: Callable[[StepLog], None] | None = None,
    ) -> Path:
        """Train on prompts and the targets of their images, and return `out/model`.

        Args:
            checkpoint: to continue from; None starts anew (`checkpoints.open_run`).
        """
        ...
