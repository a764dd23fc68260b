"""Tokens that an image is billed at, by model family: the providers' published formulas, for estimates before a run.

Sources: OpenAI "Images and vision: calculating costs", Google "Gemini API: understand and count tokens", Anthropic
"Vision: evaluate image size", and the processors of Qwen2-VL, Qwen2.5-VL (patches of 14, merged by 2) and Qwen3-VL
(patches of 16, merged by 2).
"""

import math
import re
from collections.abc import Callable
from functools import partial

from rubricworks.llm.endpoint import Endpoint

DEFAULT = 1_000
"""Tokens of an image for a model of no known family."""
_SIDE = 1_024
"""Longer side to which sources are scaled down by default (`data.max_side`)."""


def image_tokens(endpoint: Endpoint, width: int = _SIDE, height: int = _SIDE) -> int:
    """Tokens of one image of a call, at the provider's default detail."""
    name = endpoint.model.rpartition("/")[2].lower()
    return next((count(width, height) for family, count in _FAMILIES if re.match(family, name)), DEFAULT)


def _openai_tiles(width: int, height: int, *, base: int, tile: int) -> int:
    """Tiles of 512 pixels, after the image is fitted into 2048 x 2048 and its shorter side into 768."""
    scale = min(1.0, 2_048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    return base + tile * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)


def _openai_patches(width: int, height: int, *, factor: float) -> int:
    """Patches of 32 pixels, after the image is scaled down to 1,536 of them, times a factor of the model."""
    across, down = width / 32, height / 32
    if math.ceil(across) * math.ceil(down) > 1_536:
        scale = math.sqrt(1_536 / (across * down))
        across, down = across * scale, down * scale
        fit = min(math.floor(across) / across, math.floor(down) / down)
        across, down = round(across * fit, 6), round(down * fit, 6)
    return math.ceil(math.ceil(across) * math.ceil(down) * factor)


def _gemini(width: int, height: int) -> int:
    """258 tokens a tile: one tile up to 384 x 384, else tiles of two thirds of the shorter side."""
    if max(width, height) <= 384:
        return 258
    side = max(1, math.floor(min(width, height) / 1.5))
    return 258 * math.ceil(width / side) * math.ceil(height / side)


def _claude(width: int, height: int) -> int:
    """A token for 750 pixels, after the longer side is fitted into 1,568; about 1,600 at most."""
    scale = min(1.0, 1_568 / max(width, height))
    return min(1_600, math.ceil(width * height * scale**2 / 750))


def _qwen(width: int, height: int, *, side: int) -> int:
    """One token per merged patch of this many pixels, and two that enclose the image."""
    return max(1, round(width / side)) * max(1, round(height / side)) + 2


_FAMILIES: tuple[tuple[str, Callable[[int, int], int]], ...] = (
    (r"gpt-4o-mini", partial(_openai_tiles, base=2_833, tile=5_667)),
    (r"gpt-(4\.1|5)-mini", partial(_openai_patches, factor=1.62)),
    (r"gpt-(4\.1|5)-nano", partial(_openai_patches, factor=2.46)),
    (r"o4-mini", partial(_openai_patches, factor=1.72)),
    (r"gpt-5", partial(_openai_tiles, base=70, tile=140)),
    (r"o[13](?!-mini)", partial(_openai_tiles, base=75, tile=150)),
    (r"(chatgpt-)?gpt-4", partial(_openai_tiles, base=85, tile=170)),
    (r"gemini-3", lambda width, height: 1_120),
    (r"gemini", _gemini),
    (r"claude", _claude),
    (r"qwen3-?vl|qwen3\.", partial(_qwen, side=32)),
    (r"qwen2(\.5)?-?vl|qvq", partial(_qwen, side=28)),
)
"""Pattern at the start of a model's name → its formula; the first match counts."""
