"""Prompts as model inputs, and the processor of the laptop student.

The student reads text and images, no video. Its folder names Qwen3-VL's own processor, so that transformers and vLLM
load it without this package; that one needs a video processor, and torchvision with it. `load_processor` reads the same
folder as a `TinyVLProcessor`, which needs neither and remembers the images that it has prepared.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import AutoConfig, AutoProcessor, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.feature_extraction_utils import BatchFeature
from transformers.image_utils import make_flat_list_of_images
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.processing_utils import ProcessorMixin

IMAGE_TOKEN = "<|image_pad|>"
VIDEO_TOKEN = "<|video_pad|>"
"""Token that Qwen3-VL's processor wants to exist; its id lies outside the model's vocabulary."""
IMAGE_START = "<|vision_start|>"
IMAGE_END = "<|vision_end|>"
PAD, END, UNKNOWN, USER, ASSISTANT = "<|pad|>", "<|end|>", "<|unk|>", "<|user|>", "<|assistant|>"

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|assistant|>' if message['role'] == 'assistant' else '<|user|>' -}}"
    "{%- if message['content'] is string -%}{{- message['content'] -}}"
    "{%- else -%}{%- for part in message['content'] -%}"
    "{%- if part['type'] == 'image' -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}"
    "{%- elif part['type'] == 'text' -%}{{- part['text'] -}}{%- endif -%}"
    "{%- endfor -%}{%- endif -%}"
    "{%- if message['role'] == 'assistant' -%}{{- '<|end|>' -}}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)

_MARK = "rubricworks_processor"
"""Field of `processor_config.json` in a folder of the laptop student."""

_CACHED_BYTES = 512 * 2**20
"""Size of a processor's cache of prepared images: epochs repeat them, a group shares one, and TRL prepares each twice.

The quickstart's 2,048 warm-up images take 450 MB.
"""


class TinyVLProcessor(ProcessorMixin):
    """Processor from a chat with images to token ids and Qwen-VL patches.

    The patches of an image depend only on its pixels and are cached in memory by digest.
    """

    return_mm_token_type_ids = True
    text_kwargs = {"return_token_type_ids": False}  # noqa: RUF012 - the mixin reads a plain class attribute

    def __init__(
        self,
        image_processor: Qwen2VLImageProcessorPil | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        chat_template: str | dict[str, str] | None = None,
    ) -> None:
        assert tokenizer is not None, "the processor reads text too"
        self.image_token = IMAGE_TOKEN
        self.image_token_id = tokenizer.convert_tokens_to_ids(IMAGE_TOKEN)
        super().__init__(image_processor, tokenizer, chat_template=chat_template)

    def replace_image_token(self, image_inputs: Any, image_idx: int, **kwargs: Any) -> str:
        grid = image_inputs["image_grid_thw"][image_idx]
        return self.image_token * (int(grid.prod()) // self.image_processor.merge_size**2)

    def _process_images(self, images: Any, **kwargs: Any) -> tuple[BatchFeature, list[str]]:
        return_tensors = kwargs.pop("return_tensors", None)
        flat: Any = make_flat_list_of_images(images)
        prepared = [self._prepare(image, kwargs) for image in flat]
        features = BatchFeature(
            {
                "pixel_values": np.concatenate([patches for patches, _ in prepared]),
                "image_grid_thw": np.concatenate([grid for _, grid in prepared]),
            },
            tensor_type=return_tensors,
        )
        return features, [self.replace_image_token(features, index) for index in range(len(prepared))]

    def _prepare(self, image: Any, options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        cache: OrderedDict[Any, tuple[np.ndarray, np.ndarray]] = self.__dict__.setdefault("_prepared", OrderedDict())
        pixels = np.asarray(image)
        key = (pixels.shape, hashlib.blake2b(pixels.tobytes(), digest_size=16).digest(), repr(sorted(options.items())))
        if key not in cache:
            features = self.image_processor([image], **options)
            patches, grid = np.asarray(features["pixel_values"]), np.asarray(features["image_grid_thw"])
            while cache and (len(cache) + 1) * patches.nbytes > _CACHED_BYTES:
                cache.popitem(last=False)
            cache[key] = (patches, grid)
        cache.move_to_end(key)
        return cache[key]

    def to_dict(self) -> dict[str, Any]:
        """Fields of `processor_config.json`: those of Qwen3-VL's processor, and the mark for `load_processor`."""
        fields = super().to_dict()
        fields.pop("_prepared", None)
        images = self.image_processor
        shared = {name: getattr(images, name) for name in ("image_mean", "image_std", "patch_size", "merge_size")}
        size = {name: images.size[name] for name in ("shortest_edge", "longest_edge")}
        video = {**shared, "size": size, "temporal_patch_size": images.temporal_patch_size}
        fields["video_processor"] = {"video_processor_type": "Qwen3VLVideoProcessor", **video}
        return {**fields, "processor_class": "Qwen3VLProcessor", _MARK: type(self).__name__}

    def save_pretrained(self, save_directory: Any, *args: Any, **kwargs: Any) -> Any:
        written = super().save_pretrained(save_directory, *args, **kwargs)
        # The tokenizer's file names the class of the processor that it was saved with.
        file = Path(save_directory, "tokenizer_config.json")
        fields = json.loads(file.read_text())
        file.write_text(json.dumps({**fields, "processor_class": "Qwen3VLProcessor"}, indent=2) + "\n")
        return written

    def __deepcopy__(self, memo: dict[int, Any]) -> "TinyVLProcessor":
        return type(self)(self.image_processor, self.tokenizer, chat_template=self.chat_template)

    def post_process_image_text_to_text(
        self, generated_outputs: Any, skip_special_tokens: bool = True, **kwargs: Any
    ) -> list[str]:
        return self.tokenizer.batch_decode(generated_outputs, skip_special_tokens=skip_special_tokens, **kwargs)

    @property
    def model_input_names(self) -> list[str]:
        return [*super().model_input_names, "mm_token_type_ids"]


class TinyVLConfig(PreTrainedConfig):
    """Registration key of `TinyVLProcessor`, which the folders of earlier versions name."""

    model_type = "rubricworks_tiny_vl"


AutoConfig.register(TinyVLConfig.model_type, TinyVLConfig, exist_ok=True)
AutoProcessor.register(TinyVLConfig, TinyVLProcessor, exist_ok=True)


def load_processor(path_or_name: str | Path, **options: Any) -> Any:
    """Load the processor of a vision-language model, as `AutoProcessor` does; of the laptop student, its own.

    Args:
        options: those of `AutoProcessor.from_pretrained`.
    """
    file = Path(path_or_name, "processor_config.json")
    own = file.is_file() and _MARK in json.loads(file.read_text())
    return (TinyVLProcessor if own else AutoProcessor).from_pretrained(str(path_or_name), **options)


Messages = list[dict[str, Any]]
"""A conversation, `[{"role": "user", "content": "…"}]`, for prompts of more than one user turn of text.

The content of a turn may be a list of parts, for prompts with several images: `{"type": "text", "text": "…"}` and
`{"type": "image", "image": pixels}`.
"""


def tokenizer_of(processor: ProcessorMixin | PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Tokenizer of a processor; of a text model, the tokenizer itself."""
    return processor.tokenizer if isinstance(processor, ProcessorMixin) else processor


def image_messages(image: Image.Image | None, prompt: str | Messages) -> Messages:
    """Build one user turn with an image; image None makes the empty placeholder that TRL fills.

    Raises:
        ValueError: the prompt is a conversation, which has no place for the image.
    """
    if not isinstance(prompt, str):
        raise ValueError("the prompt of an image is a conversation; give it as text")
    place = {"type": "image"} if image is None else {"type": "image", "image": image}
    return [{"role": "user", "content": [place, {"type": "text", "text": prompt}]}]


def images_of(prompt: str | Messages) -> list[Any]:
    """Images among the parts of a conversation, in their order."""
    turns = [] if isinstance(prompt, str) else [turn["content"] for turn in prompt]
    return [part["image"] for content in turns if not isinstance(content, str) for part in content if "image" in part]


def text_messages(prompt: str | Messages) -> Messages:
    """Build a conversation of plain strings, the only content that most templates of text models accept."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    return [{"role": turn["role"], "content": _plain_text(turn["content"])} for turn in prompt]


def template_options(processor: ProcessorMixin | PreTrainedTokenizerBase) -> dict[str, Any]:
    """Options of a text model's chat template: a hybrid model (Qwen3) answers without a thinking part.

    The answer's `thought` field holds the reasoning. Templates without this option ignore it.
    """
    return {} if isinstance(processor, ProcessorMixin) else {"enable_thinking": False}


def encode_prompts(
    processor: ProcessorMixin | PreTrainedTokenizerBase,
    images: Sequence[Image.Image | None],
    prompts: Sequence[str | Messages],
) -> dict[str, torch.Tensor]:
    """Encode prompts as left-padded model inputs that end at the start of the model's answer."""
    conversations = [_conversation(image, prompt) for image, prompt in zip(images, prompts, strict=True)]
    tensors: dict[str, Any] = {"return_tensors": "pt", "padding": True}
    options: dict[str, Any]
    if isinstance(processor, ProcessorMixin):
        options = {"processor_kwargs": {**tensors, "padding_side": "left"}}
    else:
        options = {**tensors, "tokenizer_kwargs": {"padding_side": "left"}, **template_options(processor)}
    encoded: Any = processor.apply_chat_template(
        conversations, add_generation_prompt=True, tokenize=True, return_dict=True, **options
    )
    return dict(encoded)


def prompt_token_ids(
    processor: ProcessorMixin | PreTrainedTokenizerBase, image: Image.Image | None, prompt: str | Messages
) -> list[int]:
    """Encode one prompt as `encode_prompts` does, but with one token for each image, which an engine expands."""
    messages = _conversation(image, prompt)
    template: Any = processor.apply_chat_template
    text = template([messages], add_generation_prompt=True, tokenize=False, **template_options(processor))[0]
    tokenizer = tokenizer_of(processor)
    # A template that writes the start of the text itself must not get a second one.
    starts = tokenizer.bos_token is not None and text.startswith(tokenizer.bos_token)
    special = isinstance(processor, ProcessorMixin) and not starts
    return list(tokenizer(text, add_special_tokens=special)["input_ids"])


def _conversation(image: Image.Image | None, prompt: str | Messages) -> Messages:
    if image is not None:
        return image_messages(image, prompt)
    return prompt if isinstance(prompt, list) and images_of(prompt) else text_messages(prompt)


def _plain_text(content: str | Messages) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
