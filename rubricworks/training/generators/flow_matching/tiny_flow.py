"""A flow-matching generator small enough for two CPU cores, built and pretrained from captioned pictures.

The pretraining fits the velocity at noise levels that are spread as those of the sampling; one caption in ten is left
out, for classifier-free guidance. It resumes from its last checkpoint with the same result.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import BertConfig, BertModel, PrinterCallback

from rubricworks.training.checkpoints import open_run, run_digest, train_from
from rubricworks.training.config import SupervisedAdamW, SupervisedConfig
from rubricworks.training.generators.config import TinyFlowConfig
from rubricworks.training.generators.flow_matching.patch_basis import fit_patch_basis
from rubricworks.training.generators.flow_matching.pixel_flow import PixelFlow, PixelFlowShape, patches_of
from rubricworks.training.generators.flow_matching.supervised import FlowTrainer, collate, stratified_levels
from rubricworks.training.generators.supervised import supervised_arguments
from rubricworks.training.generators.tiny_ar import captions_with_gaps
from rubricworks.training.generators.words import word_tokenizer
from rubricworks.training.machine import keep_freed_memory
from rubricworks.training.progress import StepLines, StepLog, quiet_libraries

_LOWEST = 0.2
"""Noise level below which the error of the image counts as at this level; what is left to learn there is little."""

_FITTED = 4096
"""Pictures that the basis of patches is fitted to."""


def pretrain_tiny_flow(
    captions: Sequence[str],
    images: NDArray[np.uint8],
    out: Path,
    config: TinyFlowConfig,
    *,
    seed: int = 0,
    digest: str = "",
    on_log: Callable[[StepLog], None] | None = None,
) -> Path:
    """Build and pretrain a generator on pictures [N, side, side, 3], and return `out/model`.

    Args:
        digest: of the pictures; a call with another one starts anew.
    """
    keep_freed_memory()
    checkpoint = open_run(out, run_digest("tiny-flow", config.model_dump(exclude={"save_every"}), seed, digest))
    if (out / "model").is_dir():
        return out / "model"
    generator = _build(captions, images, config, seed)
    options = SupervisedConfig(
        steps=config.steps,
        batch_size=config.batch_size,
        optimizer=SupervisedAdamW(learning_rate=config.learning_rate),
        save_every=config.save_every,
    )
    latents, texts = generator.encode(images), captions_with_gaps(captions, config.unconditional, seed)
    trainer = FlowTrainer(
        model=_Parts(generator),
        args=supervised_arguments(out, options, seed=seed, checkpoints_itself=True),
        train_dataset=list(zip(texts, latents, strict=True)),
        data_collator=collate,
        callbacks=[StepLines("pretraining", {"loss": "loss", "learning_rate": "lr"}, on_log)],
    )
    trainer.remove_callback(PrinterCallback)
    with quiet_libraries():
        train_from(trainer, checkpoint)
    return generator.save(out / "model")


def _build(captions: Sequence[str], images: NDArray[np.uint8], config: TinyFlowConfig, seed: int) -> PixelFlow:
    from diffusers import QwenImageTransformer2DModel

    tokenizer = word_tokenizer(captions, padding_side="right")
    basis = None
    if config.latent:
        basis = fit_patch_basis(patches_of(images[:_FITTED], config.patch).flatten(0, 1), config.latent)
    channels = config.latent or config.patch**2 * 3
    per_head = config.hidden // config.heads
    axis = per_head // 3 // 2 * 2
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        transformer: Any = QwenImageTransformer2DModel(
            patch_size=1,
            in_channels=channels,
            out_channels=channels,
            num_layers=config.layers,
            attention_head_dim=per_head,
            num_attention_heads=config.heads,
            joint_attention_dim=config.hidden,
            axes_dims_rope=(per_head - 2 * axis, axis, axis),
        )
        text_encoder = BertModel(
            BertConfig(
                vocab_size=len(tokenizer),
                hidden_size=config.hidden,
                num_hidden_layers=config.text_layers,
                num_attention_heads=config.heads,
                intermediate_size=4 * config.hidden,
                max_position_embeddings=config.max_prompt_tokens,
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
                initializer_range=config.initializer_range,
                pad_token_id=0,
            ),
            add_pooling_layer=False,
        )
    shape = PixelFlowShape(
        side=images.shape[1],
        patch=config.patch,
        sampling_steps=config.sampling_steps,
        shift=config.shift,
        max_prompt_tokens=config.max_prompt_tokens,
        latent=config.latent,
    )
    return PixelFlow(transformer, text_encoder, tokenizer, shape, basis)


class _Parts(nn.Module):
    """Trained parts as one module."""

    def __init__(self, generator: PixelFlow) -> None:
        super().__init__()
        self.generator = generator
        self.transformer, self.text_encoder = generator.transformer, generator.text_encoder

    def forward(self, prompts: Sequence[str], x_0: Tensor) -> dict[str, Tensor]:
        """Error of the predicted image at a random noise level, weighted as that of the velocity."""
        # One level of each stratum: a batch covers all of them.
        t_N = self.generator.shifted(stratified_levels(len(x_0)).to(x_0))
        noise, t = torch.randn_like(x_0), t_N[:, None, None]
        image = self.generator.clean_image((1 - t) * x_0 + t * noise, t_N, self.generator.encode_prompts(prompts))
        error = (image - x_0).square().mean(dim=(1, 2))
        return {"loss": (error / t_N.clamp(min=_LOWEST).square()).mean()}
