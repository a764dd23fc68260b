"""A student small enough for two CPU cores: a Qwen3-VL of about 0.7 million parameters with a word-level vocabulary.

It is trained by the same code as any other model; only its size is special. A model of this size learns to see only
with four choices: position embeddings of the vision tower drawn from N(0, 1) (with the usual 0.02 all patches look the
same to attention), pixels centred on the background colour (most of an image is then near zero), 96 channels in the
vision tower (with 64, one seed in six never learns to distinguish shapes), and a vocabulary of whole words, so that a
caption is a few dozen tokens.
"""

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from rubricworks.errors import UserError
from rubricworks.training.config import TinyConfig
from rubricworks.training.lora import save_plain_model
from rubricworks.training.processing import (
    ASSISTANT,
    CHAT_TEMPLATE,
    END,
    IMAGE_END,
    IMAGE_START,
    IMAGE_TOKEN,
    PAD,
    UNKNOWN,
    USER,
    VIDEO_TOKEN,
    TinyVLProcessor,
)

_IMAGES_FOR_BACKGROUND = 256


def build_student(
    texts: Iterable[str],
    out: Path,
    *,
    config: TinyConfig | None = None,
    images: Iterable[bytes] = (),
    seed: int = 0,
) -> Path:
    """Write an untrained student as a Hugging Face model directory and return the directory.

    Args:
        texts: texts that the student must read or write; the vocabulary is their words, split on white space.
        images: training images, encoded; their median colour becomes the zero of the pixel scale.
    Raises:
        UserError: the texts contain no word.
    """
    config = config or TinyConfig()
    out = Path(out)
    tokenizer = word_tokenizer(texts)
    side = config.image_side
    factor = config.patch * config.merge
    image_processor = Qwen2VLImageProcessorPil(
        patch_size=config.patch,
        merge_size=config.merge,
        temporal_patch_size=1,
        image_mean=background_colour(images),
        image_std=[0.5, 0.5, 0.5],
        size={"shortest_edge": factor * factor, "longest_edge": side * side},
    )
    model_config = _model_config(config, tokenizer)
    tokenizer.add_special_tokens({"extra_special_tokens": [VIDEO_TOKEN]}, replace_extra_special_tokens=False)
    processor = TinyVLProcessor(image_processor, tokenizer, chat_template=CHAT_TEMPLATE)

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Qwen3VLForConditionalGeneration(model_config)
        torch.nn.init.normal_(model.model.visual.pos_embed.weight, std=1.0)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=False
    )
    return save_plain_model(model, processor, out)


def word_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Build a tokenizer whose tokens are the words of the texts, most frequent first."""
    counts: dict[str, int] = {}
    for text in texts:
        for word in text.split():
            counts[word] = counts.get(word, 0) + 1
    if not counts:
        raise UserError("the student's vocabulary is empty: give texts with at least one word to build it from")
    specials = [PAD, END, UNKNOWN, USER, ASSISTANT, IMAGE_START, IMAGE_TOKEN, IMAGE_END]
    words = sorted(counts.keys() - set(specials), key=lambda word: (-counts[word], word))
    vocabulary = {token: index for index, token in enumerate([*specials, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        additional_special_tokens=[USER, ASSISTANT, IMAGE_START, IMAGE_TOKEN, IMAGE_END],
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def background_colour(images: Iterable[bytes]) -> list[float]:
    """Median colour of the first few hundred images, each channel in [0, 1]; mid-grey if there are none."""
    sampled = []
    for _, image in zip(range(_IMAGES_FOR_BACKGROUND), images, strict=False):
        pixels = np.asarray(Image.open(BytesIO(image)).convert("RGB")).reshape(-1, 3)
        sampled.append(pixels[:: max(1, len(pixels) // 2048)])
    if not sampled:
        return [0.5, 0.5, 0.5]
    return (np.median(np.concatenate(sampled), axis=0) / 255).tolist()


def _model_config(config: TinyConfig, tokenizer: PreTrainedTokenizerFast) -> Qwen3VLConfig:
    head_dim = config.hidden // config.heads
    height = width = head_dim // 2 // 3
    return Qwen3VLConfig(  # type: ignore[call-arg]  # transformers declares fewer fields than it takes
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": config.hidden,
            "intermediate_size": config.intermediate,
            "num_hidden_layers": config.layers,
            "num_attention_heads": config.heads,
            "num_key_value_heads": config.heads,
            "head_dim": head_dim,
            "max_position_embeddings": config.max_tokens,
            "initializer_range": config.initializer_range,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "mrope_section": [head_dim // 2 - height - width, height, width],
                "mrope_interleaved": True,
            },
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "tie_word_embeddings": True,
        },
        vision_config={
            "depth": config.vision_depth,
            "hidden_size": config.vision_hidden,
            "intermediate_size": 2 * config.vision_hidden,
            "num_heads": config.vision_heads,
            "patch_size": config.patch,
            "spatial_merge_size": config.merge,
            "temporal_patch_size": 1,
            "out_hidden_size": config.hidden,
            "num_position_embeddings": (config.image_side // config.patch) ** 2,
            "deepstack_visual_indexes": [],
            "initializer_range": config.initializer_range,
        },
        image_token_id=_token_id(tokenizer, IMAGE_TOKEN),
        video_token_id=len(tokenizer),  # the next token's, outside the vocabulary
        vision_start_token_id=_token_id(tokenizer, IMAGE_START),
        vision_end_token_id=_token_id(tokenizer, IMAGE_END),
        initializer_range=config.initializer_range,
        tie_word_embeddings=True,
    )


def _token_id(tokenizer: PreTrainedTokenizerFast, token: str) -> int:
    token_id = tokenizer.convert_tokens_to_ids(token)
    assert isinstance(token_id, int), "one token has one id"
    return token_id
