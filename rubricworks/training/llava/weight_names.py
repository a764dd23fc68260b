"""Names of a LLaVA's weights in files, as the Hub's checkpoints of LLaVA and vLLM have them.

Transformers 5.23 keeps the weights of a CLIP tower below `vision_tower`, and saves a new model's so; it reads both
names. vLLM 0.30 knows those of the Hub alone, below `vision_tower.vision_model`.
"""

from typing import Any

from rubricworks.training.llava import LLAVAS

_TOWER, _HUB = "vision_tower.", "vision_tower.vision_model."


def is_llava_with_clip(config: Any) -> bool:
    """Return True if a model's configuration is that of a LLaVA with a CLIP vision tower."""
    return config.model_type in LLAVAS and config.vision_config.model_type == "clip_vision_model"


def hub_name(name: str) -> str:
    """Name of a weight in files."""
    return name if _HUB in name else name.replace(_TOWER, _HUB, 1)
