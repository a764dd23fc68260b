"""Flow-matching pipelines of diffusers as generators: FLUX.1 and Qwen-Image.

A pipeline samples by itself, with its own scheduler and guidance. What is added is its velocity at one noise level, the
inputs of which DiffusionNFT replays, and the decoding of its latents. Both have packed latents, [N, tokens, channels].
"""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from diffusers import DiffusionPipeline, FluxPipeline, QwenImagePipeline
from diffusers.utils import logging as diffusers_logging
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from rubricworks.errors import UserError
from rubricworks.training.generators.config import ImageSampling
from rubricworks.training.generators.flow_matching.generator import (
    Conditions,
    SampledLatents,
    generate_images,
    save_transformer,
)
from rubricworks.training.generators.image_tokenizer import Pixels
from rubricworks.training.progress import quiet_libraries

_ENCODED = 16
"""Pictures that the VAE encodes at once."""


class PipelineFlow(ABC):
    """A pipeline; subclasses know the inputs of its transformer."""

    video_vae: ClassVar[bool]
    """The VAE is one of videos; an image is one frame."""

    def __init__(self, pipe: Any, folder: Path, sampling: ImageSampling) -> None:
        self.pipe, self.folder, self.steps = pipe, folder, sampling.steps
        pipe.set_progress_bar_config(disable=True)
        self.side: int = sampling.side or pipe.default_sample_size * pipe.vae_scale_factor
        multiple = 2 * pipe.vae_scale_factor
        if self.side % multiple:
            raise UserError(f"sampling.side is {self.side}; {type(pipe).__name__} draws multiples of {multiple} pixels")

    @property
    def transformer(self) -> nn.Module:
        module: nn.Module = self.pipe.transformer
        return module

    @transformer.setter
    def transformer(self, module: nn.Module) -> None:
        self.pipe.transformer = module

    @property
    def device(self) -> torch.device:
        device: torch.device = self.pipe._execution_device
        return device

    @abstractmethod
    def encode_prompts(self, prompts: Sequence[str]) -> dict[str, Tensor]:
        """Encode prompts as the pipeline does."""

    @abstractmethod
    def velocity(self, x_t: Tensor, t_N: Tensor, conditions: Conditions, *, guidance: float = 1.0) -> Tensor:
        """Velocity at noise levels t, [N, tokens, channels]."""

    @abstractmethod
    def guidance_arguments(self, prompts: Sequence[str], guidance: float) -> dict[str, Any]:
        """Arguments of the pipeline for its guidance."""

    @abstractmethod
    def vae_latents(self, latents: Tensor) -> Tensor:
        """Unpacked latents as the VAE decodes them."""

    @abstractmethod
    def packed(self, vae_latents: Tensor) -> Tensor:
        """Latents of the transformer from those of the VAE; undoes `vae_latents`."""

    @torch.no_grad()
    def sample(
        self, prompts: Sequence[str], *, guidance: float = 1.0, generator: torch.Generator | list[torch.Generator]
    ) -> SampledLatents:
        """Sample one image per prompt with the pipeline."""
        latents = self.pipe(
            prompt=list(prompts),
            height=self.side,
            width=self.side,
            generator=generator,
            output_type="latent",
            return_dict=False,
            **({"num_inference_steps": self.steps} if self.steps else {}),
            **self.guidance_arguments(prompts, guidance),
        )[0]
        sigmas = self.pipe.scheduler.sigmas
        return SampledLatents(latents, sigmas[sigmas > 0].to(latents.device))

    @torch.no_grad()
    def encode(self, images: Pixels) -> Tensor:
        """Latents of RGB images [N, side, side, 3], the modes of the VAE's distributions.

        Raises:
            UserError: the images have another size than the pipeline draws.
        """
        if images.shape[1:3] != (self.side, self.side):
            height, width = images.shape[1:3]
            raise UserError(
                f"the pictures have {width}x{height} pixels and the generator {self.folder} draws {self.side}; scale "
                "them, or set sampling.side"
            )
        vae = self.pipe.vae
        latents = []
        for part in torch.from_numpy(images).split(_ENCODED):
            pixels = (part.permute(0, 3, 1, 2).float() / 127.5 - 1).to(vae.device, vae.dtype)
            if self.video_vae:
                pixels = pixels[:, :, None]  # one frame
            latents.append(self.packed(vae.encode(pixels).latent_dist.mode()))
        return torch.cat(latents)

    @torch.no_grad()
    def decode(self, latents: Tensor) -> Tensor:
        """RGB values of latents, [N, side, side, 3], in [-1, 1] for what is in range."""
        vae = self.pipe.vae
        images = vae.decode(self.vae_latents(latents).to(vae.dtype), return_dict=False)[0]
        if self.video_vae:
            images = images[:, :, 0]
        values: Tensor = images.permute(0, 2, 3, 1)
        return values

    def generate(
        self, prompts: Sequence[str], *, temperature: float = 1.0, guidance: float = 1.0, seed: int = 0,
        batch_size: int = 64,
    ) -> list[Pixels | None]:  # fmt: skip
        """Generate one image per prompt; the temperature is without meaning for a flow."""
        return generate_images(self, prompts, guidance=guidance, seed=seed, batch_size=batch_size)

    def save(self, out: Path, *, dtype: torch.dtype | None = None) -> Path:
        """Write a pipeline's folder: the transformer, and a copy of the other parts."""
        part = out.with_name(out.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for source in sorted(self.folder.iterdir()):
            if source.is_file():
                shutil.copyfile(source, part / source.name)
            elif source.name != "transformer":
                shutil.copytree(source, part / source.name)
        with quiet_libraries():
            save_transformer(self.pipe.transformer, part / "transformer", dtype)
        shutil.rmtree(out, ignore_errors=True)
        part.rename(out)
        return out


class FluxFlow(PipelineFlow):
    """FLUX.1: guidance is an input of the distilled transformer."""

    video_vae = False

    def encode_prompts(self, prompts: Sequence[str]) -> dict[str, Tensor]:
        with torch.no_grad():
            states, pooled, _ = self.pipe.encode_prompt(prompt=list(prompts), prompt_2=None)
        return {"encoder_hidden_states": states, "pooled_projections": pooled}

    def velocity(self, x_t: Tensor, t_N: Tensor, conditions: Conditions, *, guidance: float = 1.0) -> Tensor:
        dtype = self.pipe.transformer.dtype
        rows = self.side // self.pipe.vae_scale_factor // 2
        image_ids = self.pipe._prepare_latent_image_ids(len(x_t), rows, rows, x_t.device, dtype)
        texts = conditions["encoder_hidden_states"]
        scale = torch.full([len(x_t)], guidance, device=x_t.device) if self._is_distilled else None
        prediction: Tensor = self.pipe.transformer(
            hidden_states=x_t.to(dtype),
            timestep=t_N.to(dtype),
            guidance=scale,
            txt_ids=torch.zeros(texts.shape[1], 3, device=x_t.device, dtype=dtype),
            img_ids=image_ids,
            return_dict=False,
            **conditions,
        )[0]
        return prediction

    @property
    def _is_distilled(self) -> bool:
        return bool(self.pipe.transformer.config.guidance_embeds)

    def guidance_arguments(self, prompts: Sequence[str], guidance: float) -> dict[str, Any]:
        if self._is_distilled:
            return {"guidance_scale": guidance}
        return {"true_cfg_scale": guidance, "negative_prompt": [""] * len(prompts)} if guidance != 1 else {}

    def vae_latents(self, latents: Tensor) -> Tensor:
        config = self.pipe.vae.config
        unpacked: Tensor = self.pipe._unpack_latents(latents, self.side, self.side, self.pipe.vae_scale_factor)
        return unpacked / config.scaling_factor + config.shift_factor

    def packed(self, vae_latents: Tensor) -> Tensor:
        config = self.pipe.vae.config
        scaled = (vae_latents - config.shift_factor) * config.scaling_factor
        packed: Tensor = self.pipe._pack_latents(scaled, *scaled.shape)
        return packed


class QwenImageFlow(PipelineFlow):
    """Qwen-Image: true classifier-free guidance, against an empty prompt."""

    video_vae = True

    def encode_prompts(self, prompts: Sequence[str]) -> dict[str, Tensor]:
        with torch.no_grad():
            states, mask = self.pipe.encode_prompt(prompt=list(prompts))
        if mask is None:
            mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        return {"encoder_hidden_states": states, "encoder_hidden_states_mask": mask.bool()}

    def velocity(self, x_t: Tensor, t_N: Tensor, conditions: Conditions, *, guidance: float = 1.0) -> Tensor:
        dtype = self.pipe.transformer.dtype
        rows = self.side // self.pipe.vae_scale_factor // 2
        mask = conditions["encoder_hidden_states_mask"]
        prediction: Tensor = self.pipe.transformer(
            hidden_states=x_t.to(dtype),
            timestep=t_N.to(dtype),
            encoder_hidden_states=conditions["encoder_hidden_states"],
            encoder_hidden_states_mask=None if mask.all() else mask,
            img_shapes=[[(1, rows, rows)]] * len(x_t),
            return_dict=False,
        )[0]
        return prediction

    def guidance_arguments(self, prompts: Sequence[str], guidance: float) -> dict[str, Any]:
        if guidance == 1:
            return {"true_cfg_scale": 1.0}
        return {"true_cfg_scale": guidance, "negative_prompt": [" "] * len(prompts)}

    def vae_latents(self, latents: Tensor) -> Tensor:
        unpacked: Tensor = self.pipe._unpack_latents(latents, self.side, self.side, self.pipe.vae_scale_factor)
        mean, std = self._moments(unpacked)
        return unpacked * std + mean

    def packed(self, vae_latents: Tensor) -> Tensor:
        mean, std = self._moments(vae_latents)
        scaled = ((vae_latents - mean) / std)[:, :, 0]  # one frame
        packed: Tensor = self.pipe._pack_latents(scaled, *scaled.shape)
        return packed

    def _moments(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation of the VAE's latents, by channel."""
        config = self.pipe.vae.config
        mean, std = (
            torch.tensor(values, device=like.device, dtype=like.dtype).view(1, -1, 1, 1, 1)
            for values in (config.latents_mean, config.latents_std)
        )
        return mean, std


_KINDS: dict[Any, type[PipelineFlow]] = {FluxPipeline: FluxFlow, QwenImagePipeline: QwenImageFlow}


def load_pipeline(
    folder: Path, sampling: ImageSampling, *, dtype: Literal["auto", "float32", "bfloat16"]
) -> PipelineFlow:
    """Read a pipeline's folder.

    Args:
        dtype: precision of all parts; "auto" for that of the saved transformer.
    Raises:
        UserError: it is damaged, or of another class.
    """
    diffusers_logging.disable_progress_bar()
    try:
        with quiet_libraries():
            pipe: Any = DiffusionPipeline.from_pretrained(
                folder,
                dtype=_stored_dtype(folder / "transformer") if dtype == "auto" else getattr(torch, dtype),
                local_files_only=True,
                use_safetensors=True,
            )
    except (OSError, ValueError, AttributeError, SafetensorError) as error:
        raise UserError(f"cannot load the pipeline {folder}: {str(error).splitlines()[0]}") from error
    kind = next((flow for of_diffusers, flow in _KINDS.items() if isinstance(pipe, of_diffusers)), None)
    if kind is None:
        raise UserError(
            f"{folder} is a {type(pipe).__name__}; flow-matching pipelines that can be trained are FluxPipeline and "
            "QwenImagePipeline"
        )
    pipe.to("cuda" if torch.cuda.is_available() else "cpu")
    return kind(pipe, folder, sampling)


def _stored_dtype(folder: Path) -> torch.dtype:
    """Precision of the weights in a folder: diffusers, unlike Transformers, would load them in float32."""
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as weights:
            for name in weights.keys():  # noqa: SIM118 - it is no dictionary
                dtype: torch.dtype = weights.get_tensor(name).dtype
                return dtype
    return torch.float32
