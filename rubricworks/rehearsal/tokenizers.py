"""Tokenizers, processors and templates that stand in for those of named models: the same classes and special tokens.

The vocabulary is that of byte-level BPE trained on a few texts. Ids differ from the model's; everything that finds
tokens by their text works as at full size.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

_SIZE = 600
"""Tokens of the vocabulary; 256 of them are bytes."""
QWEN_TOKENS = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>"),
    *("<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>"),
    *("<|image_pad|>", "<|video_pad|>"),
)
_TURNS = (
    "{%- for message in messages -%}{{- '<|im_start|>' + message['role'] + '\\n' -}}"
    "{%- if message['content'] is string -%}{{- message['content'] -}}"
    "{%- else -%}{%- for part in message['content'] -%}"
    "{%- if part['type'] == 'image' -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}"
    "{%- elif part['type'] == 'video' -%}{{- '<|vision_start|><|video_pad|><|vision_end|>' -}}"
    "{%- elif part['type'] == 'text' -%}{{- part['text'] -}}{%- endif -%}"
    "{%- endfor -%}{%- endif -%}{{- '<|im_end|>\\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
_SYSTEM = (
    "{%- if messages[0]['role'] != 'system' -%}"
    "{{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' -}}{%- endif -%}"
)
_CLIP_PIXELS = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
_QWEN3_PIXELS = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}


def save_qwen_tokenizer(folder: Path, texts: Iterable[str], model_type: str) -> int:
    """Write a tokenizer of Qwen's class with its chat template, and return the number of its tokens."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_SIZE, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    trained.train_from_iterator(texts, trainer)
    content = json.loads(trained.to_str())["model"]
    vocabulary: dict[str, int] = content["vocab"]
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in content["merges"]]
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    added = {str(len(vocabulary) + at): _special(token) for at, token in enumerate(QWEN_TOKENS)}
    fields = {
        "tokenizer_class": "Qwen2Tokenizer",
        "added_tokens_decoder": added,
        "additional_special_tokens": list(QWEN_TOKENS[1:]),
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "model_max_length": 131_072,
        # Qwen3's templates begin with the first turn, those before it with a system turn of their own.
        "chat_template": _TURNS if model_type.startswith("qwen3") else _SYSTEM + _TURNS,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(fields, indent=2))
    return len(vocabulary) + len(QWEN_TOKENS)


def save_qwen_processor(folder: Path, model_type: str, vision: dict[str, Any]) -> None:
    """Write the files of the processor that the model type has on the Hub, beside a saved tokenizer."""
    version = {"qwen2_vl": "Qwen2VL", "qwen2_5_vl": "Qwen2_5_VL"}.get(model_type, "Qwen3VL")
    patch, merge = vision["patch_size"], vision.get("spatial_merge_size", 2)
    factor = (patch * merge) ** 2
    fields = {
        "image_processor_type": "Qwen2VLImageProcessorFast" if version == "Qwen3VL" else "Qwen2VLImageProcessor",
        "processor_class": f"{version}Processor",
        "patch_size": patch,
        "temporal_patch_size": vision.get("temporal_patch_size", 2),
        "merge_size": merge,
        "size": {"shortest_edge": 4 * factor, "longest_edge": 16_384 * factor},
        **(_QWEN3_PIXELS if version == "Qwen3VL" else _CLIP_PIXELS),
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(fields, indent=2))
    video = fields | {
        "video_processor_type": "Qwen3VLVideoProcessor" if version == "Qwen3VL" else "Qwen2VLVideoProcessor"
    }
    del video["image_processor_type"]
    (folder / "video_preprocessor_config.json").write_text(json.dumps(video, indent=2))
    template = json.loads((folder / "tokenizer_config.json").read_text())["chat_template"]
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": template}))


def save_clip_processor(folder: Path, side: int) -> None:
    """Write the image processor of a CLIP whose images have so many pixels a side."""
    fields = {
        "image_processor_type": "CLIPImageProcessor",
        "size": {"shortest_edge": side},
        "crop_size": {"height": side, "width": side},
        "do_center_crop": True,
        **_CLIP_PIXELS,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(fields, indent=2))


def _special(token: str) -> dict[str, Any]:
    return {
        "content": token, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True,
    }  # fmt: skip
