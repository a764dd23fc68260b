"""Codebook of patches: an image tokenizer whose codes are whole patches of pixels.

An image is cut into square patches, and each takes the code of its nearest patch in the codebook (vector
quantisation). The codebook is fitted to images: their distinct patches if there are few enough, which makes it
lossless, else the centres of k-means. It is the small form of the tokenizers that `image_tokenizer.ImageTokenizer`
stands for (LlamaGen-VQ, Cosmos, Janus' and Emu3's own).
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from rubricworks.errors import UserError

CODEBOOK_FILE = "codebook.safetensors"
_ROWS = 4096


class PatchCodebook:
    """Codes of patches, [codes, patch * patch * 3] in 0 to 255."""

    def __init__(self, patches_CD: Tensor, *, side: int, patch: int) -> None:
        """
        Args:
            side: height and width of the images, a multiple of `patch`.
        """
        self.patches_CD, self.side, self.patch = patches_CD.float(), side, patch

    @classmethod
    def fit(cls, images: NDArray[np.uint8], *, patch: int, codes: int, seed: int = 0) -> "PatchCodebook":
        """Fit a codebook of at most `codes` patches to images [N, side, side, 3].

        Raises:
            UserError: the images are not square, or `patch` does not divide their side.
        """
        _, height, width, _ = images.shape
        if height != width or height % patch:
            raise UserError(f"images of {width}x{height} pixels do not divide into patches of {patch}; choose another")
        cut = _cut(images, patch)
        distinct = np.unique(cut.reshape(-1, cut.shape[-1]), axis=0)
        if len(distinct) > codes:
            from scipy.cluster.vq import kmeans2

            distinct, _ = kmeans2(distinct.astype(np.float32), codes, minit="++", seed=seed)
        return cls(torch.from_numpy(np.ascontiguousarray(distinct)), side=height, patch=patch)

    @property
    def codes(self) -> int:
        """Number of codes."""
        return len(self.patches_CD)

    @property
    def length(self) -> int:
        """Codes of one image."""
        return (self.side // self.patch) ** 2

    def encode(self, images: NDArray[np.uint8]) -> Tensor:
        """Codes of images [N, side, side, 3] in reading order, [N, length]."""
        cut = torch.from_numpy(np.ascontiguousarray(_cut(images, self.patch)))
        rows = cut.reshape(-1, cut.shape[-1])
        nearest = [torch.cdist(part.float(), self.patches_CD).argmin(dim=1) for part in rows.split(_ROWS)]
        return torch.cat(nearest).view(len(images), -1)

    def decode(self, codes_NL: Tensor) -> NDArray[np.uint8]:
        """Images of codes [N, length], as uint8 [N, side, side, 3]."""
        count, rows, size = len(codes_NL), self.side // self.patch, self.patch
        pixels = self.patches_CD[codes_NL.cpu().long()].view(count, rows, rows, size, size, 3)
        images = pixels.permute(0, 1, 3, 2, 4, 5).reshape(count, self.side, self.side, 3)
        return images.round().clamp(0, 255).to(torch.uint8).numpy()

    def save(self, folder: Path) -> None:
        """Write `codebook.safetensors` into the folder."""
        shape = torch.tensor([self.side, self.patch])
        save_file({"patches": self.patches_CD.contiguous(), "shape": shape}, folder / CODEBOOK_FILE)

    @classmethod
    def load(cls, folder: Path) -> "PatchCodebook":
        """Read the codebook of a generator's folder.

        Raises:
            UserError: there is none, or it is damaged.
        """
        try:
            tensors = load_file(folder / CODEBOOK_FILE)
            side, patch = tensors["shape"].tolist()
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise UserError(f"{folder}: no readable {CODEBOOK_FILE} ({type(error).__name__})") from error
        return cls(tensors["patches"], side=side, patch=patch)


def _cut(images: NDArray[np.uint8], patch: int) -> NDArray[np.uint8]:
    """Patches of images in reading order, [N, patches, patch * patch * 3]."""
    count, side = len(images), images.shape[1]
    rows = side // patch
    cut = images.reshape(count, rows, patch, rows, patch, 3).transpose(0, 1, 3, 2, 4, 5)
    return cut.reshape(count, rows * rows, -1)
