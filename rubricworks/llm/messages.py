"""Parts of a chat message: text, images as data URLs, and untrusted text fenced by tags.

Text written by a model or a person is data in a prompt. `fence` puts it between tags and escapes its less-than signs,
so that a caption can neither close its fence and continue as prompt, nor contain a chat template's control tokens
(`<|im_end|>`), which some servers interpret anywhere.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, TypedDict

from rubricworks.data.image_metadata import strip_metadata

_LESS_THAN = str.maketrans(dict.fromkeys("<\u2039\ufe64\uff1c", "&lt;"))
"""Escapes less-than and its look-alikes: single angle quotation mark, small and full-width less-than."""
_CACHED_IMAGES = 32


class DataUrl(str):
    """Data URL of an image, with the image's digest. It needs no escaping in JSON."""

    __slots__ = ("digest",)
    digest: bytes


class TextPart(TypedDict):
    """Part of a message that is text."""

    type: Literal["text"]
    text: str


class ImageUrl(TypedDict):
    url: str


class ImagePart(TypedDict):
    """Part of a message that is an image."""

    type: Literal["image_url"]
    image_url: ImageUrl


Part = TextPart | ImagePart


class Message(TypedDict):
    """Message of a chat, as OpenAI's protocol has it."""

    role: str
    content: str | Sequence[Part]


def text_part(text: str) -> TextPart:
    """Message part of a text."""
    return {"type": "text", "text": text}


def image_part(image: bytes) -> ImagePart:
    """Message part of a PNG or JPEG image, as a data URL, without metadata such as the place of a photograph.

    Raises:
        ValueError: the image is not bytes, or neither PNG nor JPEG.
    """
    if not isinstance(image, bytes):
        raise ValueError(f"the image is {type(image).__name__}; give the bytes of a PNG or JPEG file")
    return {"type": "image_url", "image_url": {"url": _data_url(image)}}


@lru_cache(maxsize=_CACHED_IMAGES)
def _data_url(image: bytes) -> DataUrl:
    """Encode an image; cached, because the rollouts of a group and the judges of a rollout share an image."""
    if image.startswith(b"\x89PNG\r\n\x1a\n"):
        kind = "png"
    elif image.startswith(b"\xff\xd8\xff"):
        kind = "jpeg"
    else:
        raise ValueError("the image is neither PNG nor JPEG; `rubricworks.data` re-encodes other kinds")
    image = strip_metadata(image) or image
    url = DataUrl(f"data:image/{kind};base64,{base64.b64encode(image).decode('ascii')}")
    url.digest = hashlib.sha256(url[:16].encode() + image).digest()
    return url


def user_message(content: str | Sequence[Part]) -> Message:
    return {"role": "user", "content": content}


def conversation(system: str, content: str | Sequence[Part]) -> list[Message]:
    """Return a system message and one of the user."""
    return [{"role": "system", "content": system}, user_message(content)]


def fence(tag: str, text: str, *, name: str = "") -> str:
    """Put `text` on separate lines between `<tag>` and `</tag>`, with `&lt;` for every less-than sign in it."""
    if "<" in text or not text.isascii():
        text = text.translate(_LESS_THAN)
    opening = f'<{tag} name="{name}">' if name else f"<{tag}>"
    return f"{opening}\n{text}\n</{tag}>"
