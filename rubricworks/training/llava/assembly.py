"""An untrained LLaVA model from a vision tower and a language model, or from nothing, as a plain model directory.

Architecture and processor are Transformers' own, so that the directory loads with `AutoModelForImageTextToText`,
`AutoProcessor` and vLLM. The projector between the two is a new MLP of two layers (LLaVA-1.5).
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoProcessor,
    AutoTokenizer,
    CLIPVisionConfig,
    CLIPVisionModel,
    GenerationConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaNextConfig,
    LlavaNextForConditionalGeneration,
    LlavaNextProcessor,
    LlavaProcessor,
    PreTrainedTokenizerBase,
    Qwen2Config,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

from rubricworks.data.hub import model_place
from rubricworks.errors import UserError
from rubricworks.training.config import TinyLlavaConfig
from rubricworks.training.load_errors import load_errors
from rubricworks.training.lora import save_plain_model
from rubricworks.training.processing import ASSISTANT, IMAGE_TOKEN, USER
from rubricworks.training.progress import quiet_libraries
from rubricworks.training.tiny.student import background_colour, word_tokenizer

_TILES = ((1, 2), (2, 1), (2, 2), (3, 1), (1, 3))
"""LLaVA-NeXT's grids of tiles for images of any resolution."""
_TINY_TEMPLATE = (
    "{%- for message in messages -%}"
    f"{{{{- '{ASSISTANT}' if message['role'] == 'assistant' else '{USER}' -}}}}"
    "{%- if message['content'] is string -%}{{- message['content'] -}}"
    "{%- else -%}{%- for part in message['content'] -%}"
    f"{{%- if part['type'] == 'image' -%}}{{{{- '{IMAGE_TOKEN}' -}}}}"
    "{%- elif part['type'] == 'text' -%}{{- part['text'] -}}{%- endif -%}"
    "{%- endfor -%}{%- endif -%}"
    "{%- if message['role'] == 'assistant' -%}{{- '<|end|>' -}}{%- endif -%}"
    "{%- endfor -%}"
    f"{{%- if add_generation_prompt -%}}{{{{- '{ASSISTANT}' -}}}}{{%- endif -%}}"
)
_CHATML_TEMPLATE = (
    "{%- if messages[0]['role'] != 'system' -%}"
    "{{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' -}}{%- endif -%}"
    "{%- for message in messages -%}{{- '<|im_start|>' + message['role'] + '\\n' -}}"
    "{%- if message['content'] is string -%}{{- message['content'] -}}"
    "{%- else -%}{%- for part in message['content'] -%}"
    "{%- if part['type'] == 'image' -%}{{- '<image>\\n' -}}"
    "{%- elif part['type'] == 'text' -%}{{- part['text'] -}}{%- endif -%}"
    "{%- endfor -%}{%- endif -%}{{- '<|im_end|>\\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
"""Qwen2's chat format with its system turn, as LLaVA-NeXT's `qwen_1_5` has it, and a place for the image."""


def assemble_llava(
    vision_tower: str, language_model: str, out: Path, *, any_resolution: bool = True, seed: int = 0
) -> Path:
    """Write the model of a pretrained CLIP vision tower and a pretrained language model; return its directory.

    Args:
        vision_tower, language_model: model directories, or names on the Hugging Face Hub.
        any_resolution: LLaVA-NeXT's tiles, which keep an image's resolution; else one tile (LLaVA-1.5).
    Raises:
        UserError: one of them cannot be loaded, or the language model speaks another chat format than ChatML.
    """
    vision_tower, language_model = model_place(vision_tower), model_place(language_model)
    with quiet_libraries(), load_errors(f"{vision_tower} and {language_model}"):
        tower = CLIPVisionModel.from_pretrained(vision_tower, dtype="auto")
        language: Any = AutoModelForCausalLM.from_pretrained(language_model, dtype="auto")
        tokenizer = AutoTokenizer.from_pretrained(language_model)
    if tokenizer.convert_tokens_to_ids("<|im_end|>") in (None, tokenizer.unk_token_id):
        raise UserError(f"{language_model} has no <|im_end|>; take a language model that speaks ChatML, such as Qwen2")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]}, replace_extra_special_tokens=False)
    tokenizer.eos_token = "<|im_end|>"
    image_token = tokenizer.convert_tokens_to_ids("<image>")
    if image_token >= language.config.vocab_size:
        language.resize_token_embeddings(len(tokenizer))
    vision: Any = tower.config
    side, patch = vision.image_size, vision.patch_size
    options: dict[str, Any] = {
        "vision_config": vision,
        "text_config": language.config,
        "image_token_index": image_token,
    }
    model = _new_model(options, side, any_resolution=any_resolution, seed=seed)
    _parts(model)[0].load_state_dict(tower.state_dict(), strict=False)
    _load_language(model, language)
    size: dict[str, Any] = {"size": {"shortest_edge": side}, "crop_size": {"height": side, "width": side}}
    processor = _processor(
        tokenizer, size, side, patch, template=_CHATML_TEMPLATE, image_token="<image>", any_resolution=any_resolution
    )
    model.generation_config = GenerationConfig(eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    return save_plain_model(model, processor, out)


def add_tiles(folder: Path, *, seed: int = 0) -> Path:
    """Turn a LLaVA of one tile into a LLaVA-NeXT of the same weights, in its folder; leave a LLaVA-NeXT unchanged."""
    if json.loads((folder / "config.json").read_bytes())["model_type"] == "llava_next":
        return folder
    with quiet_libraries():
        old = LlavaForConditionalGeneration.from_pretrained(folder, dtype="auto")
        read: Any = AutoProcessor.from_pretrained(folder)
    config: Any = old.config
    side = config.vision_config.image_size
    names = ("vision_config", "text_config", "image_token_id", "vision_feature_layer", "tie_word_embeddings")
    options = {name: getattr(config, name) for name in names}
    model = _new_model(options, side, any_resolution=True, seed=seed).to(old.dtype)
    lacks = model.load_state_dict(old.state_dict(), strict=False)
    assert [*lacks.missing_keys, *lacks.unexpected_keys] == ["model.image_newline"], lacks
    model.generation_config = old.generation_config
    size = {name: dict(getattr(read.image_processor, name)) for name in ("size", "crop_size")}
    processor = _processor(
        read.tokenizer,
        size,
        side,
        config.vision_config.patch_size,
        template=read.chat_template,
        image_token=read.image_token,
        any_resolution=True,
    )
    return save_plain_model(model, processor, folder)


def build_tiny_llava(
    texts: Iterable[str], out: Path, *, config: TinyLlavaConfig, images: Iterable[bytes], seed: int
) -> Path:
    """Write a LLaVA small enough for two CPU cores, both towers new; return its directory.

    Args:
        texts: texts that it must read or write; the vocabulary is their words.
        images: training images, encoded; their median colour becomes the zero of the pixel scale.
    """
    tokenizer = word_tokenizer(texts)
    side = config.image_side
    vision = CLIPVisionConfig(
        hidden_size=config.vision_hidden,
        intermediate_size=2 * config.vision_hidden,
        num_hidden_layers=config.vision_layers,
        num_attention_heads=config.vision_heads,
        image_size=side,
        patch_size=config.patch,
    )
    text = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=config.hidden,
        intermediate_size=config.intermediate,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads,
        max_position_embeddings=config.max_tokens,
        initializer_range=config.initializer_range,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    image_token = tokenizer.convert_tokens_to_ids(IMAGE_TOKEN)
    options = {
        "vision_config": vision,
        "text_config": text,
        "image_token_index": image_token,
        "vision_feature_layer": -1,
        "tie_word_embeddings": True,
    }
    model = _new_model(options, side, any_resolution=False, seed=seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        # With the usual 0.02 all patches look the same to attention (see `tiny.student`).
        torch.nn.init.normal_(_parts(model)[0].embeddings.position_embedding.weight, std=1.0)
    scale = {"image_mean": background_colour(images), "image_std": [0.5, 0.5, 0.5]}
    size = {"size": {"shortest_edge": side}, "crop_size": {"height": side, "width": side}, **scale}
    processor = _processor(
        tokenizer, size, side, config.patch, template=_TINY_TEMPLATE, image_token=IMAGE_TOKEN, any_resolution=False
    )
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=False
    )
    return save_plain_model(model, processor, out)


def _new_model(options: dict[str, Any], side: int, *, any_resolution: bool, seed: int) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if any_resolution:
            tiles = [[rows * side, columns * side] for rows, columns in _TILES]
            return LlavaNextForConditionalGeneration(LlavaNextConfig(**options, image_grid_pinpoints=tiles))
        return LlavaForConditionalGeneration(LlavaConfig(**options))


def _parts(model: Any) -> tuple[Any, Any]:
    """Vision tower and language model of a LLaVA model."""
    return model.model.vision_tower, model.model.language_model


def _load_language(model: Any, language: Any) -> None:
    own = _parts(model)[1]
    if own.get_input_embeddings().weight.shape != language.get_input_embeddings().weight.shape:
        model.resize_token_embeddings(language.get_input_embeddings().weight.shape[0])
    own.load_state_dict(language.model.state_dict())
    model.lm_head.load_state_dict(language.lm_head.state_dict())


def _processor(
    tokenizer: PreTrainedTokenizerBase,
    size: dict[str, Any],
    side: int,
    patch: int,
    *,
    template: str,
    image_token: str,
    any_resolution: bool,
) -> Any:
    options: dict[str, Any] = {
        "tokenizer": tokenizer,
        "patch_size": patch,
        "vision_feature_select_strategy": "default",
        "num_additional_image_tokens": 1,
        "chat_template": template,
        "image_token": image_token,
    }
    if any_resolution:
        tiles = [[rows * side, columns * side] for rows, columns in _TILES]
        return LlavaNextProcessor(LlavaNextImageProcessorPil(**size, image_grid_pinpoints=tiles), **options)
    return LlavaProcessor(CLIPImageProcessorPil(**size), **options)
