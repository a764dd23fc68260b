"""The parts of a chat message: text, images as data URLs, and foreign text fenced by tags.

What a model wrote, or a person, is data when it enters a prompt. `fence` puts it between tags and takes the less-than
signs from it, so that a caption can neither close its fence and speak as the prompt, nor write a chat template's
control tokens (`<|im_end|>`), which some servers read as such wherever they stand.
"""

import base64
import hashlib
from functools import lru_cache

_LESS_THAN = str.maketrans(dict.fromkeys("<\u2039\ufe64\uff1c", "&lt;"))
"""Also its look-alikes: single angle quotation mark, small and full-width less-than."""
_IMAGES_KEPT = 32


class DataUrl(str):
    """An image's data URL; it knows the image's digest, and needs no escaping in JSON."""

    __slots__ = ("digest",)
    digest: bytes


def text_part(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def image_part(image: bytes) -> dict[str, object]:
    """An image, PNG or JPEG, as the data URL that OpenAI-compatible servers take.

    Raises:
        ValueError: the bytes are neither PNG nor JPEG, or it is not bytes.
    """
    if not isinstance(image, bytes):
        raise ValueError(f"the image is {type(image).__name__}; give the bytes of a PNG or JPEG file")
    return {"type": "image_url", "image_url": {"url": _data_url(image)}}


@lru_cache(maxsize=_IMAGES_KEPT)
def _data_url(image: bytes) -> DataUrl:
    """Encoded once: the rollouts of a group, and the judges of a rollout, show the same image."""
    if image.startswith(b"\x89PNG\r\n\x1a\n"):
        kind = "png"
    elif image.startswith(b"\xff\xd8\xff"):
        kind = "jpeg"
    else:
        raise ValueError("the image is neither PNG nor JPEG; `rubricworks.data` re-encodes other kinds")
    url = DataUrl(f"data:image/{kind};base64,{base64.b64encode(image).decode('ascii')}")
    url.digest = hashlib.sha256(url[:16].encode() + image).digest()
    return url


def fence(tag: str, text: str, *, name: str = "") -> str:
    """`text` on lines of its own between `<tag>` and `</tag>`, with `&lt;` for every less-than sign in it."""
    if "<" in text or not text.isascii():
        text = text.translate(_LESS_THAN)
    opening = f'<{tag} name="{name}">' if name else f"<{tag}>"
    return f"{opening}\n{text}\n</{tag}>"
