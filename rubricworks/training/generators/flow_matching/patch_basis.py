"""Linear code of image patches: the small generator's stand-in for a VAE.

The code is the patches' principal components, each scaled to variance 1. Pictures of flat shapes lie in few of them,
so that nothing is lost, and a transformer need not be as wide as a patch has pixels.
"""

from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rubricworks.errors import UserError

_FILE = "patches.safetensors"
_MIN_SHARE = 1e-9
"""Share of the variance below which a component is rounding."""


class PatchBasis(NamedTuple):
    """Mean patch and components, `patch = mean + code @ components`."""

    mean_C: Tensor
    components_KC: Tensor

    def encode(self, patches: Tensor) -> Tensor:
        """Codes of patches [..., C], [..., K]."""
        squares = self.components_KC.square().sum(dim=1)
        return (patches - self.mean_C) @ (self.components_KC / squares[:, None]).T

    def decode(self, codes: Tensor) -> Tensor:
        """Patches of codes [..., K], [..., C]."""
        return self.mean_C + codes @ self.components_KC

    def to(self, device: torch.device) -> "PatchBasis":
        return PatchBasis(self.mean_C.to(device), self.components_KC.to(device))

    def save(self, folder: Path) -> None:
        """Write the basis into a generator's folder."""
        save_file({"mean": self.mean_C.cpu(), "components": self.components_KC.cpu().contiguous()}, folder / _FILE)

    @classmethod
    def load(cls, folder: Path) -> "PatchBasis":
        """Read the basis of a generator's folder.

        Raises:
            OSError: the folder has none.
        """
        tensors = load_file(folder / _FILE)
        return cls(tensors["mean"], tensors["components"])


def fit_patch_basis(patches_NC: Tensor, size: int) -> PatchBasis:
    """Fit a basis of so many components to patches.

    Raises:
        UserError: the patches have fewer components than that.
    """
    patches = patches_NC.double()
    mean = patches.mean(dim=0)
    variances, directions = torch.linalg.eigh((patches - mean).T @ (patches - mean) / len(patches))
    used = int((variances > _MIN_SHARE * variances.sum()).sum())
    if used < size:
        raise UserError(f"tiny_flow.latent is {size}, but the pictures' patches have {used} components; ask for fewer")
    variances, directions = variances[-size:].flip(0), directions[:, -size:].flip(1)
    # The sign of a component is arbitrary: its largest entry is positive.
    signs = directions.gather(0, directions.abs().argmax(dim=0, keepdim=True)).sign()
    return PatchBasis(mean.float(), (directions * signs * variances.sqrt()).T.float().contiguous())
