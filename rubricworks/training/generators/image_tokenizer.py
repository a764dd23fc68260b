"""Codecs between images and the codes that autoregressive generators write: their interface, and pixels as they are."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Pixels = NDArray[np.uint8]


class ImageTokenizer(Protocol):
    """Codec between pixels and codes."""

    @property
    def codes(self) -> int:
        """Number of codes."""
        ...

    @property
    def length(self) -> int:
        """Codes of one image."""
        ...

    def encode(self, images: Pixels) -> Tensor:
        """Codes [N, length] of RGB images [N, height, width, 3]."""
        ...

    def decode(self, codes_NL: Tensor) -> Iterable[Pixels | None]:
        """RGB image [height, width, 3] of each row of codes; None where the decoder fails on it."""
        ...


class StoredCodec(ImageTokenizer, Protocol):
    """Codec that is stored next to the model instead of inside it."""

    def save(self, folder: Path) -> None:
        """Write it into a folder."""
        ...


def pixels_of(values: Tensor) -> list[Pixels | None]:
    """RGB images of a decoder's values in [-1, 1], [N, height, width, 3]; None where one is not finite."""
    images: list[Pixels | None] = []
    for image in values.detach().float().cpu():
        finite = bool(torch.isfinite(image).all())
        images.append(((image.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).numpy() if finite else None)
    return images
