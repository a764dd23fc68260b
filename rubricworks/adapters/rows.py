"""Readers for TRL rows: the text of a completion and the bytes of an image."""

import io
from collections.abc import Mapping
from typing import Any

from rubricworks.errors import UserError


def completion_text(completion: Any) -> str:
    """Text of a completion: the string itself, or the text of its last message in conversational form."""
    if isinstance(completion, str):
        return completion
    content = completion[-1]["content"] if completion else ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content or [] if part.get("type") == "text")


def image_bytes(pixels: Any, sample_id: str) -> bytes:
    """Encoded bytes of an image column's value: bytes, a `{"bytes": …}` record, a PIL image, or a list of one.

    Raises:
        UserError: the value is none of these; the message names the sample.
    """
    if isinstance(pixels, list | tuple) and len(pixels) == 1:
        pixels = pixels[0]
    if isinstance(pixels, Mapping):
        pixels = pixels.get("bytes")
    if isinstance(pixels, bytes):
        return pixels
    if hasattr(pixels, "save"):
        encoded = io.BytesIO()
        pixels.convert("RGB").save(encoded, format="PNG")
        return encoded.getvalue()
    raise UserError(f"sample {sample_id}: the judge is to see the image, and the row's image column holds none")
