"""The discrete image tokenizer of Cosmos (arXiv 2501.03575; RubricRL puts its decoder behind Qwen2.5).

A Haar transform halves the image's sides twice, a convolutional encoder halves them further, and each value of a latent
is rounded to a few levels: finite scalar quantization (arXiv 2309.15505), whose codes are all combinations of levels.
Weights have the names of NVIDIA's checkpoints. The folder `codec` of a generator holds `config.json`, a `CosmosShape`,
and `model.safetensors`.
"""

import math
from collections import OrderedDict
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention, silu

from rubricworks.errors import UserError
from rubricworks.training.generators.image_tokenizer import Pixels, pixels_of

MODEL_TYPE = "cosmos_discrete_image"
_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_EDGE = 1e-3
"""Bound of a latent beyond the outermost levels, so that they can be reached."""


class CosmosShape(BaseModel):
    """Shape of the tokenizer; the defaults are those of DI16x16, for images of 256 pixels."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model_type: Literal["cosmos_discrete_image"] = "cosmos_discrete_image"
    rows: int = Field(16, ge=1)
    """Rows, and columns, of codes of an image."""
    compression: int = Field(16, ge=2)
    """Pixels on the side of a code."""
    patch: int = Field(4, ge=1)
    """Pixels that the Haar transform takes on each side."""
    channels: int = Field(128, ge=1)
    multipliers: tuple[int, ...] = Field((2, 4, 4), min_length=1)
    """Channels of each level of the encoder, in `channels`."""
    blocks: int = Field(2, ge=1)
    groups: int = Field(32, ge=1)
    """Groups of the normalisations."""
    latent_channels: int = Field(256, ge=1)
    levels: tuple[int, ...] = Field((8, 8, 8, 5, 5, 5), min_length=1)
    """Levels of each value of a code."""

    @property
    def halvings(self) -> int:
        """Levels of the encoder that halve the sides."""
        return round(math.log2(self.compression / self.patch))

    @model_validator(mode="after")
    def _divides(self) -> "CosmosShape":
        if self.patch * 2**self.halvings != self.compression or not 0 <= self.halvings <= len(self.multipliers):
            raise ValueError(
                f"compression {self.compression} is not patch {self.patch} times a power of 2 that its "
                f"{len(self.multipliers)} levels reach"
            )
        return self


class CosmosCodec:
    """Codes of the tokenizer, in square images; it works on the device of the codes that it gets."""

    def __init__(self, shape: CosmosShape, network: "CosmosNetwork | None" = None) -> None:
        self.shape = shape
        self.network = (network or CosmosNetwork(shape)).eval().requires_grad_(False)
        self.codes = math.prod(shape.levels)
        self.length = shape.rows**2

    @torch.no_grad()
    def encode(self, images: Pixels) -> Tensor:
        """Codes [N, length] of RGB images [N, height, width, 3]."""
        weight = self.network.quant_conv.weight
        values = torch.from_numpy(np.ascontiguousarray(images)).to(weight.device, weight.dtype) / 127.5 - 1
        latents = self.network.quant_conv(self.network.encoder(haar(values.permute(0, 3, 1, 2), self.shape.patch)))
        return quantized(latents.flatten(2).transpose(1, 2), self.shape.levels).cpu()

    @torch.no_grad()
    def decode(self, codes_NL: Tensor) -> list[Pixels | None]:
        """RGB image [height, width, 3] of each row of codes; None where the decoder's values are not finite."""
        network, rows = self.network.to(codes_NL.device), self.shape.rows
        latents = code_values(codes_NL, self.shape.levels).to(network.quant_conv.weight.dtype)
        hidden = network.post_quant_conv(latents.transpose(1, 2).unflatten(2, (rows, rows)))
        return pixels_of(inverse_haar(network.decoder(hidden), self.shape.patch).permute(0, 2, 3, 1))

    def save(self, folder: Path) -> None:
        """Write the codec into a folder of its own."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _CONFIG).write_text(self.shape.model_dump_json(indent=2) + "\n")
        save_file({name: weight.contiguous() for name, weight in self.network.state_dict().items()}, folder / _WEIGHTS)

    @classmethod
    def load(cls, folder: Path) -> "CosmosCodec":
        """Read the codec's folder.

        Raises:
            UserError: it is damaged, or its weights are not of its shape.
        """
        try:
            codec = cls(CosmosShape.model_validate_json((folder / _CONFIG).read_bytes()))
            codec.network.load_state_dict(load_file(folder / _WEIGHTS))
        except (OSError, ValidationError, SafetensorError, RuntimeError) as error:
            reason = " ".join(line.strip() for line in str(error).splitlines()[:2])
            raise UserError(f"cannot load the codec {folder}: {reason}") from error
        return codec


def haar(images: Tensor, patch: int) -> Tensor:
    """Haar transform that halves the sides until a pixel stands for `patch` of them: four times the channels each time.

    The bands are the mean of four pixels and their differences by row, by column and crosswise, each a quarter.
    """
    for _ in range(round(math.log2(patch))):
        first, right = images[..., ::2, ::2], images[..., ::2, 1::2]
        below, last = images[..., 1::2, ::2], images[..., 1::2, 1::2]
        bands = (
            first + right + below + last,
            first + right - below - last,
            first - right + below - last,
            first - right - below + last,
        )
        images = torch.cat(bands, dim=1) / 4
    return images


def inverse_haar(bands: Tensor, patch: int) -> Tensor:
    """Images whose Haar transform has these bands."""
    for _ in range(round(math.log2(patch))):
        mean, rows, columns, cross = bands.chunk(4, dim=1)
        images = mean.new_empty(*mean.shape[:2], 2 * mean.shape[2], 2 * mean.shape[3])
        images[..., ::2, ::2] = mean + rows + columns + cross
        images[..., ::2, 1::2] = mean + rows - columns - cross
        images[..., 1::2, ::2] = mean - rows + columns - cross
        images[..., 1::2, 1::2] = mean - rows - columns + cross
        bands = images
    return bands


def quantized(latents: Tensor, levels: tuple[int, ...]) -> Tensor:
    """Codes of latents [..., values]: each value rounded to one of its levels, the first counting least."""
    count = torch.tensor(levels, device=latents.device)
    reach = (count - 1) * (1 + _EDGE) / 2
    offset = torch.where(count % 2 == 0, 0.5, 0.0)  # an even number of levels has none in the middle
    bounded = (latents + (offset / reach).atanh()).tanh() * reach - offset
    return ((bounded.round().long() + count // 2) * _places(levels, latents.device)).sum(dim=-1)


def code_values(codes: Tensor, levels: tuple[int, ...]) -> Tensor:
    """Values of codes, [..., values] in -1 to 1."""
    count = torch.tensor(levels, device=codes.device)
    middle = count // 2
    return (codes[..., None] // _places(levels, codes.device) % count - middle) / middle


def _places(levels: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor([math.prod(levels[:at]) for at in range(len(levels))], device=device)


class CosmosNetwork(nn.Module):
    """Encoder and decoder on Haar bands, with the projections around the codes."""

    def __init__(self, shape: CosmosShape) -> None:
        super().__init__()
        self.encoder, self.decoder = _Encoder(shape), _Decoder(shape)
        self.quant_conv = nn.Conv2d(shape.latent_channels, len(shape.levels), 1)
        self.post_quant_conv = nn.Conv2d(len(shape.levels), shape.latent_channels, 1)


class _Encoder(nn.Module):
    def __init__(self, shape: CosmosShape) -> None:
        super().__init__()
        self.conv_in = nn.Conv2d(3 * shape.patch**2, shape.channels, 3, padding=1)
        levels, width = [], shape.channels
        for level, multiplier in enumerate(shape.multipliers):
            out = shape.channels * multiplier
            levels.append(_Down(width, out, shape, halves=level < shape.halvings))
            width = out
        self.down = nn.Sequential(*levels)
        self.mid = _middle(width, shape.groups)
        self.norm_out = nn.GroupNorm(shape.groups, width, eps=1e-6)
        self.conv_out = nn.Conv2d(width, shape.latent_channels, 3, padding=1)

    def forward(self, bands: Tensor) -> Tensor:
        hidden = self.mid(self.down(self.conv_in(bands)))
        latents: Tensor = self.conv_out(silu(self.norm_out(hidden)))
        return latents


class _Decoder(nn.Module):
    def __init__(self, shape: CosmosShape) -> None:
        super().__init__()
        width = shape.channels * shape.multipliers[-1]
        self.conv_in = nn.Conv2d(shape.latent_channels, width, 3, padding=1)
        self.mid = _middle(width, shape.groups)
        levels: list[_Up] = []
        for level, multiplier in reversed(list(enumerate(shape.multipliers))):
            out = shape.channels * multiplier
            levels.insert(0, _Up(width, out, shape, doubles=level >= len(shape.multipliers) - shape.halvings))
            width = out
        self.up = nn.ModuleList(levels)
        self.norm_out = nn.GroupNorm(shape.groups, width, eps=1e-6)
        self.conv_out = nn.Conv2d(width, 3 * shape.patch**2, 3, padding=1)

    def forward(self, latents: Tensor) -> Tensor:
        hidden = self.mid(self.conv_in(latents))
        for level in reversed(self.up):
            hidden = level(hidden)
        bands: Tensor = self.conv_out(silu(self.norm_out(hidden)))
        return bands


class _Down(nn.Module):
    """Level of the encoder."""

    def __init__(self, width: int, out: int, shape: CosmosShape, *, halves: bool) -> None:
        super().__init__()
        self.block = _residuals(width, out, shape.blocks, shape.groups)
        self.downsample = nn.Sequential(OrderedDict(conv=nn.Conv2d(out, out, 3, stride=2))) if halves else None

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = self.block(hidden)
        return hidden if self.downsample is None else self.downsample(pad(hidden, (0, 1, 0, 1)))


class _Up(nn.Module):
    """Level of the decoder."""

    def __init__(self, width: int, out: int, shape: CosmosShape, *, doubles: bool) -> None:
        super().__init__()
        self.block = _residuals(width, out, shape.blocks + 1, shape.groups)
        self.upsample = nn.Sequential(OrderedDict(conv=nn.Conv2d(out, out, 3, padding=1))) if doubles else None

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = self.block(hidden)
        if self.upsample is None:
            return hidden
        return self.upsample(hidden.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3))


def _residuals(width: int, out: int, count: int, groups: int) -> nn.Sequential:
    return nn.Sequential(*(_Residual(out if number else width, out, groups) for number in range(count)))


def _middle(width: int, groups: int) -> nn.Sequential:
    parts = OrderedDict[str, nn.Module](
        block_1=_Residual(width, width, groups),
        attn_1=_Attention(width, groups),
        block_2=_Residual(width, width, groups),
    )
    return nn.Sequential(parts)


class _Residual(nn.Module):
    def __init__(self, width: int, out: int, groups: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(groups, width, eps=1e-6), nn.GroupNorm(groups, out, eps=1e-6)
        self.conv1, self.conv2 = nn.Conv2d(width, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.nin_shortcut = nn.Identity() if width == out else nn.Conv2d(width, out, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        change = self.conv2(silu(self.norm2(self.conv1(silu(self.norm1(hidden))))))
        summed: Tensor = self.nin_shortcut(hidden) + change
        return summed


class _Attention(nn.Module):
    """Attention of one head over all places."""

    def __init__(self, width: int, groups: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, width, eps=1e-6)
        self.q, self.k, self.v, self.proj_out = (nn.Conv2d(width, width, 1) for _ in range(4))

    def forward(self, hidden: Tensor) -> Tensor:
        normed = self.norm(hidden)
        queries, keys, values = (part(normed).flatten(2).transpose(1, 2) for part in (self.q, self.k, self.v))
        mixed = scaled_dot_product_attention(queries, keys, values).transpose(1, 2).reshape(hidden.shape)
        summed: Tensor = hidden + self.proj_out(mixed)
        return summed
