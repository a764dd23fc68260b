"""Miniatures of a recipe's models: folders with random weights of the same class, as training and serving load them.

The shape is the model's own `config.json`, from a folder or the Hub, or else the package's table. The tokenizer and the
processor come from the same place; from the table they are stand-ins of the same classes with the same special tokens.
"""

import importlib.util
import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub import constants, is_offline_mode
from huggingface_hub.errors import StrictDataclassError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
    CLIPConfig,
    CLIPModel,
    GenerationConfig,
    PreTrainedModel,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from rubricworks.data.hub import HubSource, model_source
from rubricworks.errors import UserError
from rubricworks.rehearsal.generator_miniatures import is_image_generator, save_image_generator
from rubricworks.rehearsal.shapes import Shape, cut_shape, published_shape
from rubricworks.rehearsal.tokenizers import save_clip_processor, save_qwen_processor, save_qwen_tokenizer
from rubricworks.training.hub_layout import saves_hub_layout
from rubricworks.training.processing import TinyVLProcessor
from rubricworks.training.progress import quiet_libraries

_OF_PROCESSOR = ("*.json", "*.txt", "*.jinja", "*.model")
_HUB_S = 5


class Miniature(NamedTuple):
    """A model's miniature."""

    model: str
    """The model that the recipe names."""
    folder: Path
    kind: str
    """Class of the model."""
    origin: str
    """Source of its shape."""
    shape: Shape
    """The model's own shape."""
    differs: tuple[str, ...] = ()
    """Substitutions for parts of full size, with the reason."""


def build_miniature(model: str, folder: Path, texts: Iterable[str], *, seed: int = 0) -> Miniature:
    """Write the miniature of a model.

    Args:
        model: a folder, or a name on the Hub with its commit.
        texts: texts of a stand-in tokenizer's vocabulary.
    Raises:
        UserError: nothing tells the model's shape, or no library knows its kind.
    """
    own, origin = _own_files(model)
    shape = _read_shape(own) if own else published_shape(model)
    if shape is None:
        raise UserError(
            f"{model}: neither a folder, nor the Hub, nor the table of shapes tells what it is; give a folder "
            "with its config.json and its tokenizer; weights are not needed"
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if is_image_generator(shape):
            kind = save_image_generator(shape, folder)
            return Miniature(model, folder, kind, origin, shape)
        return _build_language_model(model, shape, own, origin, folder, texts)


def _build_language_model(
    model: str, shape: Shape, own: Path | None, origin: str, folder: Path, texts: Iterable[str]
) -> Miniature:
    differs: tuple[str, ...] = ()
    kind = shape["model_type"]
    if own:
        _copy_processor(own, folder)
        tokens = 0
    elif kind == "clip":
        tokens = 64
    elif kind.startswith("qwen"):
        tokens = save_qwen_tokenizer(folder, texts, kind)
    else:
        raise UserError(
            f"{model}: the package has no stand-in for the tokenizer of a {kind}; give a folder with its own"
        )
    small = cut_shape(shape, vocabulary=tokens, own_vocabulary=own is not None)
    if not own and kind == "clip":
        save_clip_processor(folder, small["vision_config"]["image_size"])
    elif not own and "vision_config" in small:
        save_qwen_processor(folder, kind, small["vision_config"])
    if kind != "clip":
        tokenizer = AutoTokenizer.from_pretrained(folder)
        ids = {
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": tokenizer.bos_token_id,
        }
        if "text_config" in small:
            small["text_config"] |= ids
            small |= _marks(tokenizer)
        else:
            small |= ids
    built: Any = untrained_model(model, small)
    if kind != "clip":
        built.generation_config = GenerationConfig(**ids, do_sample=False)
        is_hubs = (folder / "preprocessor_config.json").is_file()
        if "vision_config" in small and is_hubs and importlib.util.find_spec("torchvision") is None:
            _replace_processor(folder, tokenizer, small["vision_config"])
            differs = ("torchvision is not installed: a stand-in prepares images, in the same form",)
    with quiet_libraries(), saves_hub_layout(built):
        built.to(torch.bfloat16).save_pretrained(folder)
    return Miniature(model, folder, type(built).__name__, origin, shape, differs)


def untrained_model(model: str, small: Shape) -> PreTrainedModel:
    """Build a model of a shape with random weights.

    Raises:
        UserError: no library knows its kind; names `model`.
    """
    if small["model_type"] == "clip":
        return CLIPModel(CLIPConfig(**small))
    try:
        config: Any = AutoConfig.for_model(**small)
    except (ValueError, KeyError, StrictDataclassError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise UserError(
            f"{model}: Transformers takes no such config of the kind {small['model_type']}: {reason}"
        ) from error
    kind: Any = AutoModelForCausalLM
    if type(config) in AutoModelForImageTextToText._model_mapping:
        kind = AutoModelForImageTextToText
    try:
        built: PreTrainedModel = kind.from_config(config)
    except (ValueError, RuntimeError) as error:
        raise UserError(f"{model}: Transformers cannot build it: {str(error).splitlines()[0]}") from error
    return built


def _marks(tokenizer: Any) -> dict[str, int]:
    """Ids in a model's config of the tokens that hold the place of an image."""
    names = {
        "image_token_id": "<|image_pad|>",
        "video_token_id": "<|video_pad|>",
        "vision_start_token_id": "<|vision_start|>",
        "vision_end_token_id": "<|vision_end|>",
    }
    ids = {name: tokenizer.convert_tokens_to_ids(token) for name, token in names.items()}
    return {name: token_id for name, token_id in ids.items() if token_id is not None}


def _replace_processor(folder: Path, tokenizer: Any, vision: Shape) -> None:
    fields = json.loads((folder / "preprocessor_config.json").read_text())
    images = Qwen2VLImageProcessorPil(
        patch_size=vision["patch_size"],
        merge_size=vision.get("spatial_merge_size", 2),
        temporal_patch_size=vision.get("temporal_patch_size", 2),
        image_mean=fields["image_mean"],
        image_std=fields["image_std"],
        size=fields.get("size"),
    )
    for name in ("preprocessor_config.json", "video_preprocessor_config.json", "chat_template.json"):
        (folder / name).unlink(missing_ok=True)
    TinyVLProcessor(images, tokenizer, chat_template=tokenizer.chat_template).save_pretrained(folder)


def _own_files(model: str) -> tuple[Path | None, str]:
    """Folder with a model's own files, without weights, and where it is from."""
    if Path(model).is_dir():
        return Path(model), "its folder"
    source = model_source(model, ask=False)
    if source is None:
        return None, "the package's table"
    if not _answers(source):
        return None, "the package's table"
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        with quiet_libraries():
            fetched = snapshot_download(source.name, revision=source.revision, allow_patterns=[*_OF_PROCESSOR])
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError):
        return None, "the package's table"
    return Path(fetched), "the Hub"


def _answers(source: HubSource) -> bool:
    """Ask the Hub for the model once, so that a machine without network waits no longer than that."""
    if is_offline_mode():
        return False
    request = f"{constants.ENDPOINT}/{source.name}/resolve/{source.revision}/config.json"
    try:
        with urllib.request.urlopen(urllib.request.Request(request, method="HEAD"), timeout=_HUB_S):
            return True
    except OSError as error:
        return isinstance(error, urllib.error.HTTPError) and error.code != 404


def _read_shape(folder: Path) -> Shape | None:
    for name in ("config.json", "model_index.json"):
        if (file := folder / name).is_file():
            shape: Shape = json.loads(file.read_bytes())
            return shape
    return None


def _copy_processor(own: Path, folder: Path) -> None:
    for pattern in _OF_PROCESSOR:
        for file in own.glob(pattern):
            if not file.name.endswith(".index.json") and file.name != "config.json":
                shutil.copy(file, folder / file.name)
