"""Supervised training of a flow-matching generator: the velocity towards given images, at random noise levels.

It is RL's baseline that trains on captioned images, or on the best of its own images (Best-of-N). It resumes from its
last checkpoint with the same result.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PrinterCallback, Trainer

from rubricworks.training.checkpoints import train_from
from rubricworks.training.generators.config import ImageSftConfig
from rubricworks.training.generators.flow_matching.generator import FlowGenerator, noisy_latents
from rubricworks.training.generators.image_tokenizer import Pixels, pixels_of
from rubricworks.training.generators.peers import DrawnImages
from rubricworks.training.generators.supervised import supervised_arguments
from rubricworks.training.progress import StepLines, StepLog, quiet_libraries


class FlowPeer:
    """A flow-matching generator as a supervised peer trains it; its targets are latents."""

    def __init__(self, generator: FlowGenerator, guidance: float) -> None:
        """
        Args:
            guidance: scale that a guidance-distilled transformer reads in training; others draw by it alone.
        """
        self.generator, self.guidance = generator, guidance

    @property
    def random_device(self) -> torch.device:
        """The CPU, where the noise is drawn."""
        return torch.device("cpu")

    def encode(self, images: Pixels) -> Tensor:
        """Latents of RGB images [N, side, side, 3]."""
        return self.generator.encode(images).cpu()

    def draw(self, prompts: Sequence[str], *, temperature: float, draw: torch.Generator) -> DrawnImages:
        """Draw one image per prompt; the temperature is without meaning for a flow."""
        sampled = self.generator.sample(prompts, guidance=self.guidance, generator=draw)
        return DrawnImages(sampled.latents.cpu(), pixels_of(self.generator.decode(sampled.latents)))

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
        """Train all weights of the transformer and return `out/model`."""
        velocity = _Velocity(self.generator, self.guidance)
        if config.optimizer.gradient_checkpointing:
            velocity.transformer.enable_gradient_checkpointing()
        trainer = FlowTrainer(
            model=velocity,
            args=supervised_arguments(out, config, seed=seed, checkpoints_itself=True),
            train_dataset=list(zip(prompts, targets, strict=True)),
            data_collator=collate,
            callbacks=[StepLines("policy", {"loss": "loss", "learning_rate": "lr"}, on_log)],
        )
        trainer.remove_callback(PrinterCallback)
        with quiet_libraries():
            train_from(trainer, checkpoint)
        dtype = torch.bfloat16 if config.optimizer.saves_bfloat16 else None
        return self.generator.save(out / "model", dtype=dtype)


class _Velocity(nn.Module):
    """Error of the velocity as a module's loss; its parameters are the transformer's."""

    def __init__(self, generator: FlowGenerator, guidance: float) -> None:
        super().__init__()
        self.transformer: Any = generator.transformer.requires_grad_(True)
        self._generator, self.guidance = [generator], guidance  # in a list, as it is no module

    def forward(self, prompts: Sequence[str], x_0: Tensor) -> dict[str, Tensor]:
        generator = self._generator[0]
        with torch.no_grad():
            conditions = generator.encode_prompts(prompts)
        # One level of each stratum, more of them near noise, where it is decided what is drawn.
        t_N, noise = stratified_levels(len(x_0)).sqrt().to(x_0.device), torch.randn_like(x_0, dtype=torch.float32)
        velocity = generator.velocity(noisy_latents(x_0, noise, t_N), t_N, conditions, guidance=self.guidance)
        return {"loss": (velocity.float() - (noise - x_0.float())).square().mean()}


class FlowTrainer(Trainer):
    """Transformers' trainer of a module that returns its loss."""

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        loss = model(**inputs)["loss"]
        return (loss, {}) if return_outputs else loss


def collate(rows: Sequence[tuple[str, Tensor]]) -> dict[str, Any]:
    """A batch of prompts and latents."""
    return {"prompts": [prompt for prompt, _ in rows], "x_0": torch.stack([latents for _, latents in rows])}


def stratified_levels(count: int) -> Tensor:
    """One level of each of `count` strata of (0, 1), in a random order."""
    return (torch.randperm(count) + torch.rand(count)) / count
