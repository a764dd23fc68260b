"""An autoregressive generator small enough for two CPU cores, built and pretrained from captioned pictures.

The pretraining maximises the likelihood of each picture's codes after its caption; one caption in ten is left out, for
classifier-free guidance. It resumes from its last checkpoint with the same result.
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from torch.utils.data import Dataset
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    PrinterCallback,
    Trainer,
    TrainingArguments,
)

from rubricworks.training.allocator import keep_freed_memory
from rubricworks.training.checkpoints import open_run, run_digest, train_from
from rubricworks.training.generators.autoregressive import BEGIN_IMAGE, FIRST_CODE, VocabularyGenerator
from rubricworks.training.generators.codebook import PatchCodebook
from rubricworks.training.generators.config import TinyArConfig
from rubricworks.training.progress import StepLines, StepLog, quiet_libraries

_PAD, _UNKNOWN = "<pad>", "<unk>"
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
    arguments = TrainingArguments(
        output_dir=str(out),
        max_steps=config.steps,
        per_device_train_batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=round(0.05 * config.steps),
        seed=seed,
        save_strategy="steps",
        save_steps=config.save_every,
        save_total_limit=2,
        logging_steps=25,
        optim="adamw_torch_fused",
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        report_to="none",
    )
    trainer = _PretrainingTrainer(
        model=generator.model,
        args=arguments,
        train_dataset=_Pictures(_with_gaps(captions, config.unconditional, seed), codec.encode(images)),
        data_collator=_Collator(generator),
        processing_class=generator.tokenizer,
        callbacks=[StepLines("pretraining", {"loss": "loss", "learning_rate": "lr"}, on_log)],
    )
    trainer.generator = generator
    trainer.remove_callback(PrinterCallback)
    with quiet_libraries():
        train_from(trainer, checkpoint)
    return generator.save(out / "model")


def _build(captions: Sequence[str], codec: PatchCodebook, config: TinyArConfig, seed: int) -> VocabularyGenerator:
    splitter = pre_tokenizers.Split(" ", behavior="removed")
    words = sorted({piece for caption in set(captions) for piece, _ in splitter.pre_tokenize_str(caption)})
    vocabulary = {token: at for at, token in enumerate([_PAD, _UNKNOWN, BEGIN_IMAGE, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=_UNKNOWN))
    tokenizer.pre_tokenizer = splitter
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=_PAD, unk_token=_UNKNOWN, eos_token=_PAD, padding_side="left"
    )
    shape = LlamaConfig(
        vocab_size=len(vocabulary) + codec.codes,
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
    setattr(shape, FIRST_CODE, len(vocabulary))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(shape)
    return VocabularyGenerator(model, fast, codec)


def _with_gaps(captions: Sequence[str], share: float, seed: int) -> list[str]:
    """The captions, with a share of them empty. They are drawn once, so that a resumed training leaves out the same."""
    rng = random.Random(seed)
    return ["" if rng.random() < share else caption for caption in captions]


class _Pictures(Dataset[tuple[str, Tensor]]):
    def __init__(self, captions: Sequence[str], codes_NL: Tensor) -> None:
        self.captions, self.codes_NL = captions, codes_NL

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> tuple[str, Tensor]:
        return self.captions[index], self.codes_NL[index]


class _Collator:
    """Prompts and codes in one row."""

    def __init__(self, generator: VocabularyGenerator) -> None:
        self.generator = generator

    def __call__(self, rows: Sequence[tuple[str, Tensor]]) -> dict[str, Tensor]:
        ids, mask = (tensor.cpu() for tensor in self.generator.encode_prompts([caption for caption, _ in rows]))
        codes = torch.stack([codes for _, codes in rows]) + self.generator.first
        return {
            "input_ids": torch.cat([ids, codes], dim=1),
            "attention_mask": torch.cat([mask, torch.ones_like(codes)], dim=1),
        }


class _PretrainingTrainer(Trainer):
    generator: VocabularyGenerator

    def compute_loss(
        self, model: Any, inputs: dict[str, Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        logps, _ = self.generator.logps(model, inputs["input_ids"], inputs["attention_mask"])
        loss = -logps.mean()
        return (loss, {}) if return_outputs else loss
