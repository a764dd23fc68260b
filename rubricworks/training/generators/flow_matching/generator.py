"""Flow-matching generators: images drawn by following a learned velocity from noise.

With noise level t, x_t = (1 - t) x_0 + t noise, and the velocity is noise - x_0, as in diffusers. `FlowGenerator` is
the interface that DiffusionNFT trains by; `pixel_flow` has the one for laptops, `pipelines` those of diffusers.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from rubricworks.training.generators.image_tokenizer import Pixels, pixels_of

Conditions = Mapping[str, Tensor]
"""Encoded prompts: tensors with a row per prompt."""


class SampledLatents(NamedTuple):
    """N images before their decoding."""

    latents: Tensor
    """[N, ...]"""
    levels: Tensor
    """Noise levels at which the velocity was evaluated, in order, above 0."""


class FlowGenerator(Protocol):
    """Generator whose transformer predicts a velocity."""

    transformer: nn.Module
    """Replaced, or given adapters, while it is trained."""

    def encode_prompts(self, prompts: Sequence[str]) -> Conditions:
        """Encode prompts as the transformer reads them."""
        ...

    def velocity(self, x_t: Tensor, t_N: Tensor, conditions: Conditions, *, guidance: float) -> Tensor:
        """Velocity at noise levels t, without classifier-free guidance, as `x_t`.

        Args:
            guidance: scale that a guidance-distilled transformer reads; others ignore it.
        """
        ...

    def sample(
        self, prompts: Sequence[str], *, guidance: float, generator: torch.Generator | list[torch.Generator]
    ) -> SampledLatents:
        """Sample one image per prompt; guidance 1 is none.

        Args:
            generator: source of the noise of all images, or of each.
        """
        ...

    def encode(self, images: Pixels) -> Tensor:
        """Latents of RGB images [N, height, width, 3] of the generator's size."""
        ...

    def decode(self, latents: Tensor) -> Tensor:
        """RGB values of latents, [N, height, width, 3], in [-1, 1] for what is in range."""
        ...

    def generate(
        self, prompts: Sequence[str], *, temperature: float = 1.0, guidance: float = 1.0, seed: int = 0,
        batch_size: int = 64,
    ) -> list[Pixels | None]:  # fmt: skip
        """Generate one image per prompt; the temperature is without meaning for a flow."""
        ...

    def save(self, out: Path, *, dtype: torch.dtype | None = None) -> Path:
        """Write a folder that `generators.loading` reads.

        Args:
            dtype: precision of the saved transformer; its own by default.
        """
        ...


def noisy_latents(x_0: Tensor, noise: Tensor, t_N: Tensor) -> Tensor:
    """x_t = (1 - t) x_0 + t noise, in float32: bfloat16 would be off by more than a level's share of the noise.

    Args:
        t_N: noise levels, one per image.
    """
    t = t_N.float().view(-1, *[1] * (x_0.ndim - 1))
    return (1 - t) * x_0.float() + t * noise.float()


def rows_of(conditions: Conditions, rows: Any) -> dict[str, Tensor]:
    """Conditions of some rows."""
    return {name: value[rows] for name, value in conditions.items()}


def generate_images(
    generator: FlowGenerator, prompts: Sequence[str], *, guidance: float, seed: int, batch_size: int
) -> list[Pixels | None]:
    """Sample and decode in batches."""
    draw = torch.Generator().manual_seed(seed)
    images: list[Pixels | None] = []
    for start in range(0, len(prompts), batch_size):
        sampled = generator.sample(prompts[start : start + batch_size], guidance=guidance, generator=draw)
        images += list(pixels_of(generator.decode(sampled.latents)))
    return images


def save_transformer(transformer: Any, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Write a transformer of diffusers without the folder that it was read from: equal models are equal files."""
    transformer.register_to_config(_name_or_path="")
    transformer.to(dtype).save_pretrained(folder)
