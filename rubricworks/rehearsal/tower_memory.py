"""Activations of a vision tower in a training step, from a real pass of its first layers over small images.

What a tower keeps for its backward pass grows by the same amount with each layer and with each patch. So the tower is
built at two depths and in full width, and takes images of two sizes; nothing of the language model is built.
"""

import copy
from typing import Any

import torch
from transformers import AutoConfig, AutoModel

from rubricworks.rehearsal.live_bytes import LiveBytes
from rubricworks.rehearsal.shapes import Shape

_SHALLOW = (2, 4)
"""Layers of the towers that are built."""
_SIDES = (8, 16)
"""Sides of their images, in patches."""


def tower_activations(shape: Shape, *, images: int, side: int, checkpointing: bool, autocast: bool) -> int | None:
    """Measure the bytes that a tower keeps for the backward pass of so many images.

    Args:
        shape: fields of the model's `config.json`.
        side: of an image, in pixels.
    Returns:
        None for a model without a tower, or with one of another kind than Qwen-VL's, which takes patches of any number.
    """
    config = AutoConfig.for_model(**shape)
    vision = getattr(config, "vision_config", None)
    if vision is None or not hasattr(vision, "temporal_patch_size") or not hasattr(vision, "depth"):
        return None
    patches = images * (side // vision.patch_size) ** 2
    measured = [[_kept(config, depth, size, checkpointing, autocast) for size in _SIDES] for depth in _SHALLOW]
    per_patch = [(large - small) / (_SIDES[1] ** 2 - _SIDES[0] ** 2) for small, large in measured]
    per_layer = (per_patch[1] - per_patch[0]) / (_SHALLOW[1] - _SHALLOW[0])
    return int(patches * (per_patch[0] + per_layer * max(0, vision.depth - _SHALLOW[0])))


def _kept(config: Any, depth: int, side: int, checkpointing: bool, autocast: bool) -> int:
    tower = _tower(config, depth, torch.float32 if autocast else torch.bfloat16)
    if checkpointing:
        tower.gradient_checkpointing_enable({"use_reentrant": False})
    vision = config.vision_config
    channels = getattr(vision, "in_channels", None) or vision.in_chans
    pixels = torch.zeros(side * side, channels * vision.temporal_patch_size * vision.patch_size**2, dtype=tower.dtype)
    grid = torch.tensor([[1, side, side]])
    counter = LiveBytes({parameter.untyped_storage()._cdata for parameter in tower.parameters()})
    with counter, torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        features = tower(pixels, grid_thw=grid)
    alive = counter.live
    del features
    return alive


def _tower(config: Any, depth: int, dtype: torch.dtype) -> Any:
    """The first layers of the tower, on the CPU, without content."""
    config = copy.deepcopy(config)
    config.vision_config.depth = depth
    for name in ("fullatt_block_indexes", "deepstack_visual_indexes"):
        if hasattr(config.vision_config, name):
            setattr(config.vision_config, name, [at for at in getattr(config.vision_config, name) if at < depth])
    text = config.get_text_config()
    text.num_hidden_layers = 1
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[:1]
    with torch.device("meta"):
        model = AutoModel.from_config(config, dtype=dtype)
    tower = model.visual.to_empty(device="cpu").train()
    for tensor in (*tower.parameters(), *tower.buffers()):
        tensor.data.zero_()
    return tower
