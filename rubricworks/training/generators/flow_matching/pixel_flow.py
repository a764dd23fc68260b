"""A flow-matching generator of small pictures, small enough for two CPU cores.

The transformer is diffusers' own of Qwen-Image; its tokens are square patches, as pixels or as codes of a linear basis
(`patch_basis`), instead of a VAE's latents. It predicts the clean image, from which the velocity follows: a patch of
pixels has more dimensions than a small transformer is wide, and a noisy target would not fit through it (Back to
Basics, arXiv 2511.13720).
"""

import json
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from diffusers.utils.torch_utils import randn_tensor
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from rubricworks.errors import UserError
from rubricworks.training.generators.config import ImageSampling
from rubricworks.training.generators.flow_matching.generator import (
    Conditions,
    SampledLatents,
    generate_images,
    save_transformer,
)
from rubricworks.training.generators.flow_matching.patch_basis import PatchBasis
from rubricworks.training.generators.image_tokenizer import Pixels
from rubricworks.training.load_errors import load_errors
from rubricworks.training.progress import quiet_libraries

KIND = "pixel_flow"
CONFIG_FILE = "config.json"
_LOWEST = 0.05
"""Noise level below which the velocity is taken as at this level."""


class PixelFlowShape(BaseModel):
    """Content of the generator's `config.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    generator: str = KIND
    side: int
    patch: int
    sampling_steps: int
    shift: float
    """Share of the levels that is spent at high noise: level u becomes shift u / (1 + (shift - 1) u)."""
    max_prompt_tokens: int
    latent: int | None = None
    """Numbers in a patch's code; null = its pixels."""


class PixelFlow:
    """Transformer, text encoder and tokenizer of a generator on patches."""

    def __init__(
        self,
        transformer: nn.Module,
        text_encoder: Any,
        tokenizer: Any,
        shape: PixelFlowShape,
        basis: PatchBasis | None = None,
        steps: int | None = None,
    ) -> None:
        """
        Args:
            basis: code of the patches; pixels without.
            steps: evaluations of the velocity per image; those of the shape by default.
        """
        self.basis = basis
        self.steps = steps or shape.sampling_steps
        self.transformer, self.text_encoder, self.tokenizer, self.shape = transformer, text_encoder, tokenizer, shape

    @property
    def device(self) -> torch.device:
        return next(self.text_encoder.parameters()).device

    def encode_prompts(self, prompts: Sequence[str]) -> dict[str, Tensor]:
        """Encode prompts; an empty one is the unconditional.

        Raises:
            UserError: a prompt is too long.
        """
        # A closing token, so that an empty prompt has one.
        batch = self.tokenizer(
            [f"{prompt} {self.tokenizer.pad_token}" for prompt in prompts], padding=True, return_tensors="pt"
        )
        if (tokens := batch["input_ids"].shape[1]) > self.shape.max_prompt_tokens:
            longest = max(prompts, key=len)
            raise UserError(
                f"the prompt {longest[:60]!r}… has {tokens} tokens; the generator reads {self.shape.max_prompt_tokens}"
            )
        ids, mask = batch["input_ids"].to(self.device), batch["attention_mask"].to(self.device)
        states = self.text_encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return {"encoder_hidden_states": states, "encoder_hidden_states_mask": mask.bool()}

    def clean_image(self, x_t: Tensor, t_N: Tensor, conditions: Conditions) -> Tensor:
        """The transformer's prediction of x_0."""
        rows = self.shape.side // self.shape.patch
        prediction: Tensor = self.transformer(
            hidden_states=x_t, timestep=t_N, img_shapes=[[(1, rows, rows)]] * len(x_t), return_dict=False, **conditions
        )[0]
        return prediction

    def velocity(self, x_t: Tensor, t_N: Tensor, conditions: Conditions, *, guidance: float = 1.0) -> Tensor:
        """Velocity at noise levels t, [N, tokens, channels]."""
        return (x_t - self.clean_image(x_t, t_N, conditions)) / t_N.clamp(min=_LOWEST)[:, None, None]

    def levels(self) -> Tensor:
        """Noise levels of the sampling, from 1 down to 0."""
        return self.shifted(torch.linspace(1, 0, self.steps + 1, device=self.device))

    def shifted(self, levels: Tensor) -> Tensor:
        """Noise levels moved towards noise."""
        return self.shape.shift * levels / (1 + (self.shape.shift - 1) * levels)

    @torch.no_grad()
    def sample(
        self, prompts: Sequence[str], *, guidance: float = 1.0, generator: torch.Generator | list[torch.Generator]
    ) -> SampledLatents:
        """Sample one image per prompt by Euler's method; guidance 1 is none."""
        rows, channels = (self.shape.side // self.shape.patch) ** 2, self.shape.latent or self.shape.patch**2 * 3
        x = randn_tensor((len(prompts), rows, channels), generator=generator).to(self.device)
        conditions, levels = self.encode_prompts(prompts), self.levels()
        empty = self.encode_prompts([""] * len(prompts)) if guidance != 1 else conditions
        for level, following in pairwise(levels):
            t_N = level.expand(len(x))
            v = self.velocity(x, t_N, conditions)
            if guidance != 1:
                v_empty = self.velocity(x, t_N, empty)
                v = v_empty + guidance * (v - v_empty)
            x = x + (following - level) * v
        return SampledLatents(x, levels[:-1])

    def encode(self, images: NDArray[np.uint8]) -> Tensor:
        """Latents of RGB images [N, side, side, 3], [N, tokens, channels]: patches of pixels in -1 to 1, or codes."""
        patches = patches_of(images, self.shape.patch)
        return patches if self.basis is None else self.basis.encode(patches)

    def decode(self, latents: Tensor) -> Tensor:
        """RGB values of latents, [N, side, side, 3], in [-1, 1] for what is in range."""
        rows, patch = self.shape.side // self.shape.patch, self.shape.patch
        patches = latents if self.basis is None else self.basis.decode(latents)
        pixels = patches.view(-1, rows, rows, patch, patch, 3).permute(0, 1, 3, 2, 4, 5)
        return pixels.reshape(-1, self.shape.side, self.shape.side, 3)

    def generate(
        self, prompts: Sequence[str], *, temperature: float = 1.0, guidance: float = 1.0, seed: int = 0,
        batch_size: int = 64,
    ) -> list[Pixels | None]:  # fmt: skip
        """Generate one image per prompt; the temperature is without meaning for a flow."""
        return generate_images(self, prompts, guidance=guidance, seed=seed, batch_size=batch_size)

    def save(self, out: Path, *, dtype: torch.dtype | None = None) -> Path:
        """Write the folder atomically: config.json, transformer/, text_encoder/, tokenizer/."""
        part = out.with_name(out.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        (part / CONFIG_FILE).write_text(self.shape.model_dump_json(indent=2) + "\n")
        with quiet_libraries():
            save_transformer(self.transformer, part / "transformer", dtype)
            self.text_encoder.save_pretrained(part / "text_encoder")
            self.tokenizer.save_pretrained(part / "tokenizer")
        if self.basis is not None:
            self.basis.save(part)
        shutil.rmtree(out, ignore_errors=True)
        part.rename(out)
        return out

    @classmethod
    def load(cls, folder: Path, sampling: ImageSampling | None = None) -> "PixelFlow":
        """Read a generator.

        Raises:
            UserError: the folder holds none, it is damaged, or its images have another size than is asked for.
        """
        from diffusers import QwenImageTransformer2DModel
        from transformers import AutoTokenizer, BertModel

        with load_errors(f"the generator {folder}"):
            shape = PixelFlowShape.model_validate_json((folder / CONFIG_FILE).read_text())
            with quiet_libraries():
                transformer = QwenImageTransformer2DModel.from_pretrained(folder / "transformer")
                text_encoder = BertModel.from_pretrained(folder / "text_encoder", add_pooling_layer=False)
                tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
            basis = PatchBasis.load(folder) if shape.latent else None
        if sampling is not None and sampling.side not in (None, shape.side):
            raise UserError(f"sampling.side is {sampling.side}; the generator {folder} draws {shape.side} pixels")
        steps = sampling.steps if sampling is not None else None
        device = "cuda" if torch.cuda.is_available() else "cpu"
        text_encoder.requires_grad_(False)
        parts = cast(Any, transformer).to(device).eval(), cast(Any, text_encoder).to(device).eval()
        return cls(*parts, tokenizer, shape, basis.to(parts[1].device) if basis else None, steps)


def patches_of(images: NDArray[np.uint8], patch: int) -> Tensor:
    """Square patches of RGB images [N, side, side, 3], row by row, [N, patches, pixels in -1 to 1]."""
    rows = images.shape[1] // patch
    pixels = torch.from_numpy(np.ascontiguousarray(images)).view(-1, rows, patch, rows, patch, 3)
    return pixels.permute(0, 1, 3, 2, 4, 5).reshape(len(images), rows * rows, -1).float() / 127.5 - 1


def is_pixel_flow(folder: Path) -> bool:
    """Return True if the folder holds a generator of this kind."""
    try:
        return bool(json.loads((folder / CONFIG_FILE).read_text()).get("generator") == KIND)
    except (OSError, ValueError, AttributeError):
        return False
