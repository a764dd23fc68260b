"""Captions from a model directory or a Hub name: the same few lines for the student and for any larger model."""

from collections.abc import Sequence
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path

import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor, PreTrainedModel, ProcessorMixin

from rubricworks.errors import UserError
from rubricworks.training.processing import encode_prompts
from rubricworks.training.progress import quiet_libraries


def load_model(path_or_name: str | Path, *, dtype: str = "auto") -> tuple[PreTrainedModel, ProcessorMixin]:
    """A vision-language model on the best device at hand, and its processor.

    Args:
        dtype: "auto" takes the precision that the weights were saved in; else a torch name such as "float32".
    Raises:
        UserError: nothing there, not an image-text-to-text model, or no processor for images.
    """
    name = str(path_or_name)
    if Path(name).is_absolute() and not (Path(name) / "config.json").is_file():
        raise UserError(f"{name} is not a model directory (no config.json); give the folder that training wrote")
    with quiet_libraries():
        try:
            processor = AutoProcessor.from_pretrained(name)
            model = AutoModelForImageTextToText.from_pretrained(name, dtype=dtype)
        except (OSError, ValueError, ImportError) as error:
            reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise UserError(f"cannot load the model {name}: {reason}") from error
    if not isinstance(processor, ProcessorMixin) or getattr(processor, "image_processor", None) is None:
        raise UserError(f"{name} has no image processor, so it cannot read images; use a vision-language model")
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval(), processor


def generate_captions(
    model: PreTrainedModel,
    processor: ProcessorMixin,
    images: Sequence[bytes],
    prompts: Sequence[str],
    *,
    max_new_tokens: int = 256,
    temperature: float = 0.0,
    top_p: float = 1.0,
    batch_size: int = 32,
    seed: int = 0,
) -> list[tuple[str, int]]:
    """One caption per image and how many tokens it took, the end token included; temperature 0 is greedy.

    Leaves the model's mode and the global random state as they were, so it may be called in the middle of training.
    """
    if len(images) != len(prompts):
        raise ValueError(f"{len(images)} images for {len(prompts)} prompts; give one of each per caption")
    sampling = {"do_sample": True, "temperature": temperature, "top_p": top_p, "top_k": 0}
    ends = _end_ids(model, processor)
    image_token = getattr(model.config, "image_token_id", None)
    was_training = model.training
    devices = [model.device] if model.device.type == "cuda" else []
    captions: list[tuple[str, int]] = []
    try:
        model.eval()
        with torch.no_grad(), torch.random.fork_rng(devices) if temperature > 0 else nullcontext():
            if temperature > 0:
                torch.manual_seed(seed)
            for start in range(0, len(images), batch_size):
                batch = [decode_image(image) for image in images[start : start + batch_size]]
                inputs = encode_prompts(processor, batch, prompts[start : start + batch_size])
                inputs = {name: tensor.to(model.device) for name, tensor in inputs.items()}
                output = model.generate(
                    **inputs,
                    **(sampling if temperature > 0 else {"do_sample": False}),
                    max_new_tokens=max_new_tokens,
                    pad_token_id=processor.tokenizer.pad_token_id,
                    eos_token_id=ends,
                    suppress_tokens=None if image_token is None else [image_token],
                    disable_compile=True,
                )
                for row in output[:, inputs["input_ids"].shape[1] :].tolist():
                    length = next((index + 1 for index, token in enumerate(row) if token in ends), len(row))
                    captions.append((processor.tokenizer.decode(row[:length], skip_special_tokens=True), length))
    finally:
        model.train(was_training)
    return captions


def decode_image(image: bytes) -> Image.Image:
    """RGB pixels of an encoded image."""
    return Image.open(BytesIO(image)).convert("RGB")


def _end_ids(model: PreTrainedModel, processor: ProcessorMixin) -> list[int]:
    declared = model.generation_config.eos_token_id
    ends = declared if isinstance(declared, list) else [] if declared is None else [declared]
    own = processor.tokenizer.eos_token_id
    return ends if own is None or own in ends else [*ends, own]
