"""Shapes of models, published and cut: few layers and narrow ones, with every ratio and layout that code depends on.

A miniature has the class of its model. Kept are the heads' grouping and oddness, the ratio of the inner widths to the
hidden one (for experts too: an expert's two first matrices together do not get as wide as the hidden layer unless they
are), tied embeddings, patch and merge sizes, kinds of attention, and that the embeddings have more rows than the
tokenizer has tokens.
"""

import math
from importlib import resources
from typing import Any

import yaml

LAYERS = 2
EXPERTS = 8
_EXPERTS_PER_TOKEN = 2
_GROUPS = 2
"""Groups of heads that share a key and a value."""
_HEAD = 32
"""Channels of a language model's head: kernels of attention take multiples of it, so that others stay as they are."""
_VISION_HEAD = 16
"""Channels of a vision tower's head, at least."""
_TILE = 6
"""Patches on a side of an image of fixed size."""

Shape = dict[str, Any]


def published_shape(model: str) -> Shape | None:
    """Shape of a named model from the package's table; None if it is not there.

    Args:
        model: name on the Hub, with or without a commit.
    """
    text = resources.files("rubricworks.rehearsal").joinpath("shapes.yaml").read_text(encoding="utf-8")
    shape: Shape | None = yaml.safe_load(text).get(model.partition("@")[0])
    return shape


def cut_shape(shape: Shape, *, vocabulary: int, own_vocabulary: bool = False) -> Shape:
    """Shape of the miniature of a model of Transformers.

    Args:
        shape: fields of its `config.json`.
        vocabulary: tokens of the miniature's tokenizer.
        own_vocabulary: it is the model's own tokenizer, so that the embeddings keep their rows.
    """
    if "hidden_size" in shape and "num_hidden_layers" in shape and "text_config" not in shape:
        return _cut_text(shape, vocabulary, own_vocabulary)
    small = {name: value for name, value in shape.items() if name not in ("text_config", "vision_config", "vq_config")}
    width = None
    if text := shape.get("text_config"):
        small["text_config"] = _cut_text(text, vocabulary, own_vocabulary)
        width = small["text_config"]["hidden_size"]
    if vision := shape.get("vision_config"):
        small["vision_config"] = _cut_vision(vision, width)
    return small


def _cut_text(text: Shape, vocabulary: int, own_vocabulary: bool) -> Shape:
    heads = text["num_attention_heads"]
    grouped = heads // (text.get("num_key_value_heads") or heads)
    groups = min(_GROUPS * (1 if grouped > 1 else 2), heads // grouped)
    head = text.get("head_dim") or text["hidden_size"] // heads
    small_head = _halved(head, _HEAD, multiple=_HEAD)
    hidden = round(text["hidden_size"] * groups * grouped * small_head / (heads * head))
    scale = hidden / text["hidden_size"]
    layers = text["num_hidden_layers"]
    small = {name: _cut_list(value, layers) for name, value in text.items()}
    small |= {"hidden_size": hidden, "num_hidden_layers": LAYERS, "num_attention_heads": groups * grouped}
    small["num_key_value_heads"] = groups
    if "head_dim" in text:
        small["head_dim"] = small_head
    for name in ("intermediate_size", "moe_intermediate_size"):
        if text.get(name):
            small[name] = max(8, 8 * round(text[name] * scale / 8))
    for name in ("num_experts", "num_local_experts"):
        if text.get(name):
            small[name] = min(EXPERTS, text[name])
    if text.get("num_experts_per_tok"):
        small["num_experts_per_tok"] = min(_EXPERTS_PER_TOKEN, text["num_experts_per_tok"])
    if "max_window_layers" in text:
        small["max_window_layers"] = LAYERS
    if (rope := text.get("rope_parameters") or text.get("rope_scaling")) and "mrope_section" in rope:
        key = "rope_parameters" if "rope_parameters" in text else "rope_scaling"
        small[key] = rope | {"mrope_section": _sections(rope["mrope_section"], small_head // 2)}
    # Checkpoints pad their embeddings to a round number of rows.
    small["vocab_size"] = text["vocab_size"] if own_vocabulary else 64 * (vocabulary // 64 + 1)
    return small


def _cut_vision(vision: Shape, width: int | None) -> Shape:
    """Vision tower of the miniature.

    Args:
        width: hidden size of the language model that it writes to, if there is one.
    """
    heads = vision.get("num_heads") or vision["num_attention_heads"]
    wide = "embed_dim" if "embed_dim" in vision else "hidden_size"
    head = _halved(vision[wide] // heads, _VISION_HEAD, multiple=4)
    few = min(2, heads)
    small = dict(vision) | {wide: few * head}
    small["num_heads" if "num_heads" in vision else "num_attention_heads"] = few
    scale = small[wide] / vision[wide]
    if vision.get("intermediate_size"):
        small["intermediate_size"] = max(8, 8 * round(vision["intermediate_size"] * scale / 8))
    depth = LAYERS + 1
    small["depth" if "depth" in vision and "num_hidden_layers" not in vision else "num_hidden_layers"] = depth
    if vision.get("fullatt_block_indexes"):
        small["fullatt_block_indexes"] = [depth - 1]
    if vision.get("deepstack_visual_indexes"):
        small["deepstack_visual_indexes"] = list(range(min(LAYERS, len(vision["deepstack_visual_indexes"]))))
    if "image_size" in vision:
        small["image_size"] = _TILE * vision["patch_size"]
    if width is not None:
        for name in ("out_hidden_size", "projection_dim"):
            if name in vision:
                small[name] = width
        if wide == "embed_dim":
            small["hidden_size"] = width
    elif "projection_dim" in vision:
        small["projection_dim"] = small[wide]
    return small


def _halved(size: int, least: int, multiple: int) -> int:
    """Halve a size as long as it stays a multiple, and no less than the least."""
    while size % 2 == 0 and size // 2 >= least and (size // 2) % multiple == 0:
        size //= 2
    return size


def _sections(sections: list[int], total: int) -> list[int]:
    """Sections in the same proportions, which add up to `total`."""
    small = [math.floor(section * total / sum(sections)) for section in sections]
    small[0] += total - sum(small)
    return small


def _cut_list(value: Any, layers: int) -> Any:
    """First entries of a list that has one for each layer; numbers of layers that are left."""
    if isinstance(value, list) and len(value) == layers:
        return value[:LAYERS]
    return value
