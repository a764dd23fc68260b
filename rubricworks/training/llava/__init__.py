"""LLaVA models: a vision tower, a projector, and a language model."""

from typing import Any

PROJECTOR, VISION_TOWER = "multi_modal_projector", "vision_tower"
"""Modules by their name in the model."""
LLAVAS = frozenset({"llava", "llava_next"})
"""Types of these models in `config.json`."""


def freeze_unread_layers(model: Any) -> None:
    """Freeze the layers of a LLaVA's vision tower above the one whose output it reads; leave other models unchanged.

    They get no gradient, so Adam keeps no state of them, and FSDP cannot load its optimizer's checkpoint without.
    """
    read = getattr(model.config, "vision_feature_layer", None)
    tower = getattr(model.base_model, VISION_TOWER, None)
    if read is None or tower is None:
        return
    count = model.config.vision_config.num_hidden_layers
    depth = max(layer % (count + 1) for layer in ([read] if isinstance(read, int) else read))
    for name, parameter in tower.named_parameters():
        above = any(f"layers.{number}." in name for number in range(depth, count))
        if above or "post_layernorm" in name or "head." in name:
            parameter.requires_grad_(False)
