"""LlamaGen's VQ tokenizer (RubricRL puts its decoder behind Phi3), as Transformers has it in Janus: `JanusVQVAE`.

The folder `codec` of a generator holds it as Transformers saves it. Codes are the nearest vectors of the codebook by
angle, as LlamaGen trains them; Janus' own `encode` compares lengths too.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize
from transformers.models.janus.configuration_janus import JanusVQVAEConfig
from transformers.models.janus.modeling_janus import JanusVQVAE

from rubricworks.errors import UserError
from rubricworks.training.generators.image_tokenizer import Pixels, pixels_of
from rubricworks.training.load_errors import load_errors
from rubricworks.training.progress import quiet_libraries

MODEL_TYPE = JanusVQVAEConfig.model_type


class LlamaGenVq:
    """Codes of LlamaGen's VQ model, in square images; it works on the device of the codes that it gets."""

    def __init__(self, network: JanusVQVAE) -> None:
        self.network = network.eval().requires_grad_(False)
        self.codes: int = network.config.num_embeddings
        self.length: int = network.config.num_patches**2

    @torch.no_grad()
    def encode(self, images: Pixels) -> Tensor:
        """Codes [N, length] of RGB images [N, height, width, 3]."""
        weight = self.network.quantize.embedding.weight
        values = torch.from_numpy(np.ascontiguousarray(images)).to(weight.device, weight.dtype) / 127.5 - 1
        latents = self.network.quant_conv(self.network.encoder(values.permute(0, 3, 1, 2)))
        angles = normalize(latents.flatten(2), dim=1).transpose(1, 2) @ normalize(weight, dim=1).T
        return angles.argmax(dim=-1).cpu()

    @torch.no_grad()
    def decode(self, codes_NL: Tensor) -> list[Pixels | None]:
        """RGB image [height, width, 3] of each row of codes; None where the decoder's values are not finite."""
        values = self.network.to(codes_NL.device).decode(codes_NL)
        return pixels_of(values.permute(0, 2, 3, 1))

    def save(self, folder: Path) -> None:
        """Write the codec into a folder of its own."""
        self.network.save_pretrained(folder)

    @classmethod
    def load(cls, folder: Path) -> "LlamaGenVq":
        """Read the codec's folder.

        Raises:
            UserError: it is damaged, or lacks weights.
        """
        with quiet_libraries(), load_errors(f"the codec {folder}"):
            loaded: Any = JanusVQVAE.from_pretrained(folder, output_loading_info=True)
        network, report = loaded
        if missing := sorted(report["missing_keys"]):
            raise UserError(f"{folder} lacks {len(missing)} weights of LlamaGen's VQ model, such as {missing[0]}")
        return cls(network)
