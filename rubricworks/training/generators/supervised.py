"""Supervised training of an autoregressive generator: the likelihood of each picture's codes after its prompt.

It pretrains the tiny generator, and it is RL's baseline that trains on captioned images or on the best of its own
images (Best-of-N). It resumes from its last checkpoint with the same result.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import PrinterCallback, Trainer, TrainingArguments

from rubricworks.training.checkpoints import train_from
from rubricworks.training.config import Optimizer, SupervisedConfig
from rubricworks.training.generators.autoregressive import CodeGenerator
from rubricworks.training.generators.config import ImageSftConfig
from rubricworks.training.generators.image_tokenizer import Pixels
from rubricworks.training.generators.peers import DrawnImages
from rubricworks.training.optimizer import optimizer_arguments
from rubricworks.training.progress import StepLines, StepLog, quiet_libraries


def train_supervised(
    generator: CodeGenerator,
    prompts: Sequence[str],
    codes_NL: Tensor,
    out: Path,
    config: SupervisedConfig,
    *,
    seed: int,
    checkpoint: Path | None,
    title: str,
    on_log: Callable[[StepLog], None] | None = None,
) -> Path:
    """Train on prompts and the codes of their pictures, and return `out/model`.

    Args:
        checkpoint: to continue from; None starts anew (`checkpoints.open_run`).
        title: first word of its progress lines.
    """
    trainer = _SupervisedTrainer(
        model=generator.model,
        args=supervised_arguments(out, config, seed=seed),
        train_dataset=_Pictures(prompts, codes_NL),
        data_collator=_Collator(generator),
        processing_class=generator.tokenizer,
        callbacks=[StepLines(title, {"loss": "loss", "learning_rate": "lr"}, on_log)],
    )
    trainer.generator = generator
    trainer.model_accepts_loss_kwargs = False  # the loss is a mean over rows, whatever the model's own takes
    trainer.remove_callback(PrinterCallback)
    with quiet_libraries():
        train_from(trainer, checkpoint)
    return generator.save(out / "model", dtype=torch.bfloat16 if config.optimizer.saves_bfloat16 else None)


class CodePeer:
    """An autoregressive generator as a supervised peer trains it; its targets are codes."""

    def __init__(self, generator: CodeGenerator, guidance: float) -> None:
        self.generator, self.guidance = generator, guidance

    @property
    def random_device(self) -> torch.device:
        """The model's device, where codes are drawn."""
        return self.generator.model.device

    def encode(self, images: Pixels) -> Tensor:
        """Codes of RGB images [N, height, width, 3]."""
        return self.generator.codec.encode(images)

    def draw(self, prompts: Sequence[str], *, temperature: float, draw: torch.Generator) -> DrawnImages:
        """Draw one image per prompt."""
        codes_NL = self.generator.sample(
            prompts, temperature=temperature, guidance=self.guidance, generator=draw
        ).codes_NL
        return DrawnImages(codes_NL, self.generator.codec.decode(codes_NL))

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
        """Train on prompts and codes, and return `out/model`."""
        return train_supervised(
            self.generator,
            prompts,
            targets,
            out,
            config,
            seed=seed,
            checkpoint=checkpoint,
            title="policy",
            on_log=on_log,
        )


def supervised_arguments(
    out: Path, config: SupervisedConfig, *, seed: int, checkpoints_itself: bool = False
) -> TrainingArguments:
    """Arguments of the trainer for supervised training of a generator.

    Args:
        checkpoints_itself: the model is none of Transformers, which could not switch its checkpointing on.
    """
    optimizer, rows = config.optimizer, config.batch_size
    if isinstance(optimizer, Optimizer):
        rows = optimizer.rows_per_pass or rows
    arguments = optimizer_arguments(optimizer, steps=config.steps)
    if checkpoints_itself:
        arguments["activation_checkpointing"] = False
    return TrainingArguments(
        output_dir=str(out),
        max_steps=config.steps,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=config.batch_size // rows,
        **arguments,
        seed=seed,
        save_strategy="steps",
        save_steps=config.save_every,
        save_total_limit=2,
        logging_steps=config.log_every,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        report_to="none",
    )


class _Pictures(Dataset[tuple[str, Tensor]]):
    def __init__(self, prompts: Sequence[str], codes_NL: Tensor) -> None:
        self.prompts, self.codes_NL = prompts, codes_NL

    def __len__(self) -> int:
        return len(self.prompts)

    def __getitem__(self, index: int) -> tuple[str, Tensor]:
        return self.prompts[index], self.codes_NL[index]


class _Collator:
    """Prompts and codes in one row."""

    def __init__(self, generator: CodeGenerator) -> None:
        self.generator = generator

    def __call__(self, rows: Sequence[tuple[str, Tensor]]) -> dict[str, Tensor]:
        ids, mask = (tensor.cpu() for tensor in self.generator.encode_prompts([prompt for prompt, _ in rows]))
        codes = torch.stack([codes for _, codes in rows]) + self.generator.first
        return {
            "input_ids": torch.cat([ids, codes], dim=1),
            "attention_mask": torch.cat([mask, torch.ones_like(codes)], dim=1),
        }


class _SupervisedTrainer(Trainer):
    generator: CodeGenerator

    def compute_loss(
        self, model: Any, inputs: dict[str, Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        logps, _ = self.generator.logps(model, inputs["input_ids"], inputs["attention_mask"])
        loss = -logps.mean()
        return (loss, {}) if return_outputs else loss
