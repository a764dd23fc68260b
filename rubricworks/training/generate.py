"""Model loading and text generation, for model directories and Hub names, `org/name@COMMIT`.

A vision-language model has a processor, a text model a tokenizer; `Processor` covers both.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    ProcessorMixin,
)

from rubricworks.data.hub import model_place
from rubricworks.errors import UserError
from rubricworks.training.hub_layout import read_hub_layout
from rubricworks.training.llava import freeze_unread_layers
from rubricworks.training.load_errors import load_errors
from rubricworks.training.processes import is_local_main, is_sharded
from rubricworks.training.processing import Messages, encode_prompts, images_of, load_processor, tokenizer_of
from rubricworks.training.progress import quiet_libraries

Processor = ProcessorMixin | PreTrainedTokenizerBase
"""Converter of prompts to model inputs: a processor for a model that reads images, else a tokenizer."""


def load_model(
    path_or_name: str | Path, *, dtype: str = "auto", on_device: bool = True
) -> tuple[PreTrainedModel, Processor]:
    """Load a vision-language model or a causal LM on the GPU, if there is one, with its processor.

    Args:
        dtype: "auto" for the precision of the saved weights, or a torch name such as "float32".
        on_device: False leaves the model in host memory, for a trainer, which moves or shards it itself. Processes that
            shard it read it once per node; the others reserve memory for it that they never touch.
    Raises:
        UserError: the model does not exist, is of neither kind, lacks an image processor or a chat template, or has
            weights of another architecture than its config names.
    """
    path_or_name = model_place(str(path_or_name))
    processor = load_model_processor(path_or_name)
    kind = AutoModelForImageTextToText if isinstance(processor, ProcessorMixin) else AutoModelForCausalLM
    with quiet_libraries(), load_errors(f"the model {path_or_name}"):
        elsewhere = not on_device and is_sharded() and not is_local_main()
        meta = {"device_map": "meta"} if elsewhere else {}
        loaded: Any = kind.from_pretrained(str(path_or_name), dtype=dtype, output_loading_info=True, **meta)
        model, loading = loaded
    _require_weights(str(path_or_name), loading)
    if elsewhere:
        _reserve_memory(model)
    else:
        read_hub_layout(model)
    if not on_device:
        _shard_by_own_layers(model)
        freeze_unread_layers(model)
    if on_device:
        model = model.to("cuda" if torch.cuda.is_available() else "cpu")
    return model.eval(), processor


def load_model_processor(path_or_name: str | Path) -> Processor:
    """Load the processor of a vision-language model, or the tokenizer of a causal LM.

    Raises:
        UserError: as `load_model`.
    """
    name = model_place(str(path_or_name))
    if Path(name).is_absolute() and not (Path(name) / "config.json").is_file():
        raise UserError(f"{name} is not a model directory (no config.json); give the folder that training wrote")
    with quiet_libraries(), load_errors(f"the model {name}"):
        reads_images = type(AutoConfig.from_pretrained(name)) in AutoModelForImageTextToText._model_mapping
        processor = load_processor(name) if reads_images else AutoTokenizer.from_pretrained(name)
    if reads_images and getattr(processor, "image_processor", None) is None:
        raise UserError(f"{name} has no image processor, so it cannot read images; use a vision-language model")
    if not tokenizer_of(processor).chat_template and not getattr(processor, "chat_template", None):
        raise UserError(f"{name} has no chat template, so it cannot be asked; use a model tuned for chat")
    tokenizer = tokenizer_of(processor)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return processor


def _require_weights(name: str, loading: dict[str, Any]) -> None:
    """Refuse a model with weights that its files lack: Transformers draws them at random, and only warns."""
    if missing := sorted(loading["missing_keys"]):
        raise UserError(
            f"{name}: config.json names {len(missing)} weights that the folder does not hold, such as {missing[0]}; it "
            "holds another architecture: give the config and the weights of one model"
        )


def _shard_by_own_layers(model: PreTrainedModel) -> None:
    """Remove layer classes that the model lacks from the classes that FSDP wraps.

    Transformers lists the classes of a family: those of CLIP's text model too where only its vision tower is loaded.
    """
    own = {type(module).__name__ for module in model.modules()}
    model._no_split_modules = [name for name in model._no_split_modules or () if name in own]


def _reserve_memory(model: PreTrainedModel) -> None:
    """Give each parameter on the meta device an address, by which accelerate identifies it after sharding.

    The operating system gives them no memory, since nothing writes to them.
    """
    reserved: dict[int, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.is_meta:
                empty = torch.nn.Parameter(torch.empty_like(parameter, device="cpu"), parameter.requires_grad)
                setattr(module, name, reserved.setdefault(id(parameter), empty))


def check_reads_images(processor: Processor, has_images: bool) -> None:
    """Refuse images for a text model.

    Raises:
        UserError: there are images, and the model reads text only.
    """
    if has_images and not isinstance(processor, ProcessorMixin):
        raise UserError("the model has no image processor, so it cannot read images; use a vision-language model")


def generate_captions(
    model: PreTrainedModel,
    processor: Processor,
    images: Sequence[bytes | None],
    prompts: Sequence[str | Messages],
    *,
    max_new_tokens: int = 256,
    temperature: float = 0.0,
    top_p: float = 1.0,
    batch_size: int = 32,
    seed: int = 0,
) -> list[tuple[str, int]]:
    """Generate one text per prompt; return texts and token counts, end token included. Temperature 0 is greedy.

    A prompt with image None has no image, or several among its parts. Prompts of text only are batched by length, the
    longest first. The model's mode and the global random state are restored, so it may be called during training.
    """
    if len(images) != len(prompts):
        raise ValueError(f"{len(images)} images for {len(prompts)} prompts; give one of each per caption")
    has_images = any(image is not None for image in images) or any(map(images_of, prompts))
    check_reads_images(processor, has_images)
    generate: Any = model.generate
    sampling = {"do_sample": True, "temperature": temperature, "top_p": top_p, "top_k": 0}
    tokenizer = tokenizer_of(processor)
    ends = end_ids(model.generation_config.eos_token_id, tokenizer)
    image_token = getattr(model.config, "image_token_id", None)
    was_training = model.training
    devices = [model.device] if model.device.type == "cuda" else []
    order = list(range(len(images)))
    if not has_images:
        order.sort(key=lambda at: -len(str(prompts[at])))
    captions: list[tuple[str, int]] = [("", 0)] * len(images)
    try:
        model.eval()
        with torch.no_grad(), torch.random.fork_rng(devices) if temperature > 0 else nullcontext():
            if temperature > 0:
                torch.manual_seed(seed)
            for start in range(0, len(images), batch_size):
                chunk = order[start : start + batch_size]
                batch = [None if (image := images[at]) is None else decode_image(image) for at in chunk]
                inputs = encode_prompts(processor, batch, [prompts[at] for at in chunk])
                inputs = {name: tensor.to(model.device) for name, tensor in inputs.items()}
                output = generate(
                    **inputs,
                    **(sampling if temperature > 0 else {"do_sample": False}),
                    max_new_tokens=max_new_tokens,
                    pad_token_id=tokenizer.pad_token_id,
                    eos_token_id=ends,
                    suppress_tokens=None if image_token is None else [image_token],
                    disable_compile=True,
                )
                answers = output[:, inputs["input_ids"].shape[1] :].tolist()
                for at, row in zip(chunk, answers, strict=True):
                    length = next((index + 1 for index, token in enumerate(row) if token in ends), len(row))
                    captions[at] = (str(tokenizer.decode(row[:length], skip_special_tokens=True)), length)
    finally:
        model.train(was_training)
    return captions


def prompt_lengths(
    processor: Processor,
    images: Sequence[bytes | None],
    prompts: Sequence[str | Messages],
    *,
    batch_size: int = 32,
) -> list[int]:
    """Count the tokens of each prompt as the model reads it, including its image tokens."""
    lengths: list[int] = []
    for start in range(0, len(images), batch_size):
        chunk = images[start : start + batch_size]
        batch = [None if image is None else decode_image(image) for image in chunk]
        encoded = encode_prompts(processor, batch, prompts[start : start + batch_size])
        lengths += encoded["attention_mask"].sum(dim=1).tolist()
    return lengths


def decode_image(image: bytes) -> Image.Image:
    """Decode an image to RGB pixels."""
    return Image.open(BytesIO(image)).convert("RGB")


def end_ids(declared: int | list[int] | None, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Tokens that end an answer: those that the generation config declares, and the tokenizer's own."""
    ends = declared if isinstance(declared, list) else [] if declared is None else [declared]
    own = tokenizer.eos_token_id
    return ends if own is None or own in ends else [*ends, own]
