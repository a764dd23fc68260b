"""Supervised fine-tuning on examples with images or with text only.

A plain `transformers.Trainer`: the loss is the model's own, on the answer's tokens only, and so are the logits, which
at all positions of a long prompt would take more memory than the model. Training resumes exactly from
its last complete checkpoint: weights, optimizer, schedule, data order and random state.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import PrinterCallback, Trainer, TrainingArguments

from rubricworks.errors import UserError
from rubricworks.training.checkpoints import (
    load_renamed_weights,
    model_digest,
    open_run,
    run_digest,
    train_from,
)
from rubricworks.training.config import SftConfig
from rubricworks.training.conversation_collator import ConversationCollator
from rubricworks.training.examples import CACHED_BYTES, Example, StoredConversations, StoredRows
from rubricworks.training.generate import Processor, check_reads_images, decode_image, load_model
from rubricworks.training.held_out_loss import HELD_OUT_LOSS, StopAtLowestLoss
from rubricworks.training.length_groups import LengthGroups
from rubricworks.training.lora import add_adapters, save_trained_model
from rubricworks.training.machine import (
    check_one_gpu_per_process,
    check_precision,
    check_sharding,
    examples_per_process,
    keep_freed_memory,
)
from rubricworks.training.module_rates import ModuleRates
from rubricworks.training.optimizer import optimizer_arguments
from rubricworks.training.processes import is_sharded, main_process_first
from rubricworks.training.processing import (
    Messages,
    encode_prompts,
    image_messages,
    template_options,
    text_messages,
    tokenizer_of,
)
from rubricworks.training.progress import StepLines, StepLog, quiet_libraries
from rubricworks.training.row_group_order import WORKERS, RowGroupOrder
from rubricworks.training.text_parameters import freeze_unreached_by_text

_LABELS = {"loss": "loss", HELD_OUT_LOSS: "held-out loss", "learning_rate": "lr"}


def train_sft(
    model_dir: str | Path,
    examples: Iterable[tuple[bytes | None, str | Messages, str]] | StoredRows[Any],
    out_dir: Path,
    config: SftConfig,
    *,
    seed: int = 0,
    title: str = "warm-up",
    on_log: Callable[[StepLog], None] | None = None,
    modules: ModuleRates | None = None,
    plain: bool = False,
    held_out: Sequence[tuple[bytes | None, str | Messages, str]] = (),
) -> Path:
    """Train on (image, prompt, caption) triples and return `out_dir/"model"`, a plain Hugging Face directory.

    Without images (None) the caption is the target text of a text model, and a prompt may be a whole conversation.
    A call with the same arguments after a kill resumes from the last checkpoint and ends with the same weights.

    Args:
        examples: the triples; those of a table are read when they are needed, and may be conversations.
        modules: parts of the model to train, and learning rates of their own; the whole model at one rate by default.
        plain: train on the image and its caption without chat template and prompt (LLaVA's stage 1).
        held_out: triples whose loss stops the training when it rises (`held_out_loss`), unless the model is sharded.
    Raises:
        UserError: no examples, a model that cannot be loaded, inconsistent options, or a machine that lacks support.
    """
    stored = examples if isinstance(examples, StoredRows) else None
    rows: Sequence[Any] = [Example(*example) for example in examples] if stored is None else stored
    if not rows:
        raise UserError("the warm-up has no examples; give at least one image with a caption")
    config = config.model_copy(update={"steps": config.steps_on(len(rows)), "epochs": None})
    per_process = examples_per_process(config)
    optimizer = config.optimizer
    per_pass = optimizer.rows_per_pass or per_process
    check_one_gpu_per_process()
    check_precision(optimizer)
    check_sharding(optimizer.lora)
    keep_freed_memory()
    out_dir = Path(out_dir)
    settings = config.model_dump(exclude={"save_every", "log_every"}) | {"seed": seed}
    data = stored.digest if stored else [(row.prompt, row.caption, len(row.image or b"")) for row in rows]
    options: list[Any] = [*([modules] if modules else []), *(["plain"] if plain else [])]
    if measured := [] if is_sharded() else [Example(*example) for example in held_out]:
        options.append([(row.prompt, row.caption, len(row.image or b"")) for row in measured])
    digest = run_digest("sft", model_digest(model_dir), settings, data, *options)
    with main_process_first():
        checkpoint = open_run(out_dir, digest)
    if (out_dir / "model").is_dir():
        return out_dir / "model"
    model, processor = load_model(model_dir, dtype=optimizer.weights, on_device=False)
    has_images = stored is not None or any(row.image is not None for row in rows)
    check_reads_images(processor, has_images)
    trained = model if optimizer.lora is None else add_adapters(model, optimizer.lora, seed=seed)
    if not has_images:
        freeze_unreached_by_text(trained, processor)
    if modules:
        modules.freeze_others(trained)

    large = stored is not None and stored.images.bytes > CACHED_BYTES
    arguments = TrainingArguments(
        output_dir=str(out_dir),
        max_steps=config.steps,
        per_device_train_batch_size=per_pass,
        gradient_accumulation_steps=per_process // per_pass,
        **optimizer_arguments(optimizer, steps=config.steps),
        seed=seed,
        save_strategy="steps",
        save_steps=config.save_every,
        save_total_limit=2,
        logging_steps=config.log_every,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        dataloader_num_workers=WORKERS if large else 0,
        disable_tqdm=True,
        report_to="none",
    )
    lowest = StopAtLowestLoss(title, out_dir, measured, config.log_every) if measured else None
    kind = _StoredTrainer if stored else _ImageTrainer if has_images else _TextTrainer
    trainer = kind(
        model=trained,
        args=arguments,
        train_dataset=_Rows(rows),
        data_collator=_collator(rows, processor, plain=plain),
        processing_class=processor,
        callbacks=[*([lowest] if lowest else []), StepLines(title, _LABELS, on_log)],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.modules = modules
    if lowest:
        lowest.trainer = trainer
        if checkpoint:
            lowest.load(checkpoint)
    if isinstance(trainer, _StoredTrainer):
        trainer.rows_per_pass = optimizer.rows_per_pass
    with quiet_libraries():
        train_from(trainer, checkpoint, stopped=lowest is not None and lowest.has_stopped)
    if lowest:
        lowest.restore(trained)
    save_trained_model(trainer, processor, out_dir / "model", bf16=optimizer.saves_bfloat16)
    return out_dir / "model"


def _collator(rows: Sequence[Any], processor: Processor, *, plain: bool) -> Any:
    if isinstance(rows, StoredConversations):
        return ConversationCollator(processor)
    return PlainCollator(processor) if plain else CaptionCollator(processor)


class CaptionCollator:
    """Collator of examples: prompts padded on the left, captions on the right, labels on the captions only."""

    def __init__(self, processor: Processor) -> None:
        self.processor = processor

    def __call__(self, examples: Sequence[Example]) -> dict[str, torch.Tensor]:
        images = [None if example.image is None else decode_image(example.image) for example in examples]
        batch = encode_prompts(self.processor, images, [example.prompt for example in examples])
        tokenizer = tokenizer_of(self.processor)
        answers = tokenizer(
            [self._answer(example) for example in examples],
            add_special_tokens=False,
            padding=True,
            padding_side="right",
            return_tensors="pt",
        )
        ids, mask = answers["input_ids"], answers["attention_mask"]
        prompt_length = batch["input_ids"].shape[1]
        labels = torch.cat([torch.full_like(batch["input_ids"], -100), ids.masked_fill(mask == 0, -100)], dim=1)
        for name, tensor in batch.items():
            if name.endswith("token_type_ids") and tensor.shape[1] == prompt_length:
                batch[name] = torch.cat([tensor, tensor.new_zeros(ids.shape)], dim=1)
        batch["input_ids"] = torch.cat([batch["input_ids"], ids], dim=1)
        batch["attention_mask"] = torch.cat([batch["attention_mask"], mask], dim=1)
        return {**batch, "labels": labels}

    def _answer(self, example: Example) -> str:
        """Text after the prompt in the model's chat template, up to and including its end token."""
        template: Any = partial(self.processor.apply_chat_template, tokenize=False, **template_options(self.processor))
        answer: dict[str, Any] = {"role": "assistant"}
        if example.image is None:
            question, answer["content"] = text_messages(example.prompt), example.caption
        else:
            question = image_messages(None, example.prompt)
            answer["content"] = [{"type": "text", "text": example.caption}]
        prompt: str = template(question, add_generation_prompt=True)
        whole: str = template([*question, answer])
        end = tokenizer_of(self.processor).eos_token or ""
        text = whole.removeprefix(prompt) if whole.startswith(prompt) else example.caption
        return text.split(end)[0] + end if end else text


class PlainCollator:
    """Collator of images with only their captions, as in LLaVA's template `plain`: image, caption, line break."""

    def __init__(self, processor: Processor) -> None:
        self.processor = processor

    def __call__(self, examples: Sequence[Example]) -> dict[str, torch.Tensor]:
        read: Any = self.processor
        images = [decode_image(example.image) for example in examples if example.image]
        texts = [f"{read.image_token}{example.caption}\n" for example in examples]
        batch = dict(read(images=images, text=texts, return_tensors="pt", padding=True, padding_side="right"))
        ids = batch["input_ids"]
        unread = (batch["attention_mask"] == 0) | (ids == read.image_token_id)
        return {**batch, "labels": ids.masked_fill(unread, -100)}


class _ImageTrainer(Trainer):
    """Trainer with separate learning rates for parts of the model, which can load its own checkpoints."""

    modules: ModuleRates | None = None

    def create_optimizer(self, *args: Any, **options: Any) -> Any:
        optimizer = super().create_optimizer(*args, **options)
        if self.modules and self.model is not None:
            self.modules.divide_groups(optimizer, self.model)
        return optimizer

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
        forward = self.accelerator.unwrap_model(model)
        forward = getattr(forward, "get_base_model", lambda: forward)().forward
        if "logits_to_keep" in inspect.signature(forward).parameters:
            inputs = {**inputs, **labelled_positions(inputs["labels"])}
        return super().compute_loss(model, inputs, *args, **options)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if not load_renamed_weights(Path(resume_from_checkpoint), model or self.model):
            super()._load_from_checkpoint(resume_from_checkpoint, model)


def labelled_positions(labels: torch.Tensor) -> dict[str, torch.Tensor]:
    """Inputs by which a model computes logits only at positions whose next token has a label; the loss is the same.

    Args:
        labels: [rows, tokens], -100 where there is none.
    """
    following = torch.nn.functional.pad(labels, (0, 1), value=-100)[:, 1:]
    positions = following != -100
    return {"labels": following[positions], "shift_labels": following[positions], "logits_to_keep": positions}


class _TextTrainer(_ImageTrainer):
    """Trainer with batches of similar length, for text; prompts with images nearly always have the same length."""

    train_dataset: "_Rows"

    def _get_train_sampler(self, train_dataset: Any = None) -> LengthGroups:
        lengths = [len(str(row.prompt)) + len(row.caption) for row in self.train_dataset.rows]
        per_process = self.args.train_batch_size * self.args.gradient_accumulation_steps
        self._sampler = LengthGroups(lengths, per_process * self.args.world_size, self.args.seed)
        return self._sampler

    def _init_training_state(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """Set the epoch that a training resumes in: accelerate's loader for its rest hides the sampler of a process."""
        epochs, batches = super()._init_training_state(*args, **kwargs)
        self._sampler.set_epoch(epochs)
        return epochs, batches


class _StoredTrainer(_ImageTrainer):
    """Trainer on images of a table, which it reads by row groups."""

    train_dataset: "_Rows"
    rows_per_pass: int | None = None

    def _get_train_sampler(self, train_dataset: Any = None) -> RowGroupOrder:
        examples = self.train_dataset.rows
        assert isinstance(examples, StoredRows)
        places = examples.images.places(examples.rows)
        passes = self.args.gradient_accumulation_steps
        batch_size = self.args.train_batch_size * passes * self.args.world_size
        return RowGroupOrder(places, batch_size, self.rows_per_pass, self.args.seed)


class _Rows(Dataset[Any]):
    def __init__(self, rows: Sequence[Any]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.rows[index]
