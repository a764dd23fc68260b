"""An autoregressive generator small enough for two CPU cores, built and pretrained from captioned pictures.

The pretraining maximises the likelihood of each picture's codes after its caption; one caption in ten is left out, for
classifier-free guidance. It resumes from its last checkpoint with the same result.
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LlamaConfig, LlamaForCausalLM

from rubricworks.training.checkpoints import open_run, run_digest
from rubricworks.training.config import SupervisedAdamW, SupervisedConfig
from rubricworks.training.generators.autoregressive import BEGIN_IMAGE, FIRST_CODE, VocabularyGenerator
from rubricworks.training.generators.codebook import PatchCodebook
from rubricworks.training.generators.config import TinyArConfig
from rubricworks.training.generators.supervised import train_supervised
from rubricworks.training.generators.words import word_tokenizer
from rubricworks.training.machine import keep_freed_memory
from rubricworks.training.progress import StepLog

_IMAGES_FOR_CODEBOOK = 4096


def pretrain_tiny_ar(
    captions: Sequence[str],
    images: NDArray[np.uint8],
    out: Path,
    config: TinyArConfig,
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
    checkpoint = open_run(out, run_digest("tiny-ar", config.model_dump(exclude={"save_every"}), seed, digest))
    if (out / "model").is_dir():
        return out / "model"
    codec = PatchCodebook.fit(images[:_IMAGES_FOR_CODEBOOK], patch=config.patch, codes=config.codes, seed=seed)
    generator = _build(captions, codec, config, seed)
    options = SupervisedConfig(
        steps=config.steps,
        batch_size=config.batch_size,
        optimizer=SupervisedAdamW(learning_rate=config.learning_rate),
        save_every=config.save_every,
    )
    prompts = captions_with_gaps(captions, config.unconditional, seed)
    codes_NL = codec.encode(images)
    return train_supervised(
        generator, prompts, codes_NL, out, options, seed=seed, checkpoint=checkpoint, title="pretraining", on_log=on_log
    )


def _build(captions: Sequence[str], codec: PatchCodebook, config: TinyArConfig, seed: int) -> VocabularyGenerator:
    tokenizer = word_tokenizer(captions, further=[BEGIN_IMAGE])
    shape = LlamaConfig(
        vocab_size=len(tokenizer) + codec.codes,
        hidden_size=config.hidden,
        intermediate_size=config.intermediate,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads,
        max_position_embeddings=config.max_prompt_tokens + codec.length,
        initializer_range=config.initializer_range,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=0,
        tie_word_embeddings=False,
    )
    setattr(shape, FIRST_CODE, len(tokenizer))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(shape)
    return VocabularyGenerator(model, tokenizer, codec)


def captions_with_gaps(captions: Sequence[str], share: float, seed: int) -> list[str]:
    """The captions, with a share of them empty. They are drawn once, so that a resumed training leaves out the same."""
    rng = random.Random(seed)
    return ["" if rng.random() < share else caption for caption in captions]
