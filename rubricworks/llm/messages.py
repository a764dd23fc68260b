"""Parts of a chat message: text, images as data URLs, and untrusted text fenced by tags.

Text written by a model, a person or a file is data in a prompt. `fence` puts it between tags, and `json_text` writes a
value for it: neither can close the fence and continue as prompt, or hold a chat template's control tokens
(`<|im_end|>`, `[INST]`), which some servers interpret anywhere. Characters that readers do not see are left out of a
text, and escaped in JSON, which parses to the same value.
"""

import base64
import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, TypedDict

from rubricworks.data.image_metadata import strip_metadata

_LESS_THAN = "<\u2039\ufe64\uff1c\u25c1"
"""Less-than and its look-alikes: single angle quotation mark, small and full-width less-than, Kimi's triangle."""
_OPENING, _CLOSING = r"\[\ufe47\uff3b", r"\]\ufe48\uff3d"
"""Square brackets and what Unicode's compatibility forms turn into them."""
_ACTIVE = re.compile(
    rf"[{_LESS_THAN}]|[{_OPENING}{_CLOSING}](?=([^\s{_OPENING}{_CLOSING}]{{1,32}})[{_OPENING}{_CLOSING}])"
)
_TOKEN_NAME = re.compile(
    r"/?(?:(?i:inst|sys|system|user|assistant|tool|img|image|video|audio|think|args|transcribe|prefix|middle|suffix"
    r"|[gs]?mask|cls|sep|pad|unk|bos|eos|eot|eod|sop|eop|(?:control|unused|reserved)_?\d+)"
    r"|[A-Za-z]+(?:_[A-Za-z]+)+(?:_?\d+)?|\|[^|]*\||[a-z]?[!~][a-z!~]*)"
)
"""Names of control tokens between square brackets: Mistral, Llama 2, GLM, Kimi, EXAONE, MiniMax, and encoders."""
_INVISIBLE = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Zero-width, bidirectional, tag and variation characters: Unicode's default ignorable code points."""
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
    """Put `text`, made inert, on separate lines between `<tag>` and `</tag>`."""
    opening = f'<{tag} name="{name}">' if name else f"<{tag}>"
    return f"{opening}\n{inert(text)}\n</{tag}>"


def inert(text: str) -> str:
    """Return a text with `&lt;` for less-than signs, `&#91;` in control tokens, and no invisible characters."""
    if not text.isascii():
        text = _INVISIBLE.sub("", text)
    elif "<" not in text and "[" not in text and "]" not in text:
        return text
    return _ACTIVE.sub(_entity, text)


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return JSON that is safe inside a fence: active and invisible characters are escaped, as in `\\u003c`."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if not text.isascii():
        text = _INVISIBLE.sub(_json_escape, text)
    return _ACTIVE.sub(lambda match: _json_escape(match) if _is_active(match) else match[0], text)


def _is_active(match: re.Match[str]) -> bool:
    """Return True for a less-than sign, and for a bracket of a control token."""
    return match[1] is None or _TOKEN_NAME.fullmatch(unicodedata.normalize("NFKC", match[1])) is not None


def _entity(match: re.Match[str]) -> str:
    if not _is_active(match):
        return match[0]
    return "&lt;" if match[1] is None else f"&#{ord(unicodedata.normalize('NFKC', match[0]))};"


def _json_escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}" if match[0].isascii() else json.dumps(match[0])[1:-1]
