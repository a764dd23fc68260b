"""Images as trainers and files hand them over, in one form: PNG or JPEG, upright RGB, transparency on white.

A value may be the bytes of an image file of any kind, as `bytes` or a list of numbers; a record of them
(`{"bytes": …}`); a data URL or base64; a PIL image; or pixels, as a numpy array or a tensor, channels first or last, of
bytes, of 16 bits, or of fractions from 0 to 1. White is what the processors of transformers (5.23,
`image_transforms.convert_to_rgb`) and vLLM lay transparency on, so that a judge sees what the policy sees. An animation
is its first frame; a PIL image the frame that it is at.
"""

import base64
import binascii
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from PIL import Image

from rubricworks.data.images import BadImage, eight_bits, normalise_image, png_bytes, rgb_image

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FIELDS = ("bytes", "image", "image_url", "url", "data")
"""Fields of a record or a part of a message that may hold its image."""
_CHANNELS = (1, 3, 4)


def encode_image(value: Any) -> bytes:
    """PNG or JPEG of an image.

    Raises:
        BadImage: the value is no image, or one that cannot be read.
    """
    if isinstance(value, Mapping):
        return encode_image(_of_record(value))
    if isinstance(value, str):
        return normalise_image(decode_text(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return normalise_image(bytes(value))
    if isinstance(value, Image.Image):
        buffer = io.BytesIO()
        # From the pixels alone: the file's profile and comments stay behind.
        image = rgb_image(value)
        Image.frombytes("RGB", image.size, image.tobytes()).save(buffer, "PNG")
        return buffer.getvalue()
    if is_byte_list(value):
        return normalise_image(bytes(value))
    if hasattr(value, "shape") or (isinstance(value, list | tuple) and value):
        return png_bytes(_pixels(value))
    raise BadImage(f"{type(value).__name__} is no image; give its encoded bytes, or a PIL image")


def decode_text(text: str) -> bytes:
    """Bytes of an image that is written as a data URL, or as base64.

    Raises:
        BadImage: the text is neither.
    """
    header, comma, content = text.strip().partition(",")
    if header.startswith("data:") and (not comma or not header.endswith(";base64")):
        raise BadImage(f"a data URL without base64: {text[:60]!r}")
    try:
        # Line breaks are allowed in base64 (MIME).
        return base64.b64decode("".join((content if comma else text).split()), validate=True)
    except (binascii.Error, ValueError):
        raise BadImage(f"{text[:60]!r} is neither a data URL nor base64; give the image's bytes") from None


def is_byte_list(value: Any) -> bool:
    """Return True for a list of bytes as numbers, which Arrow's list<uint8> becomes."""
    return (
        isinstance(value, list | tuple)
        and len(value) > 1
        and all(type(item) is int and 0 <= item < 256 for item in value)
    )


def _of_record(record: Mapping[str, object]) -> Any:
    image = next((record[name] for name in _FIELDS if record.get(name) is not None), None)
    if image is None and record.get("path"):
        raise BadImage(f"a path ({record['path']}), not bytes; save the dataset with its images")
    if image is None:
        raise BadImage(f"a record without bytes, only {', '.join(map(str, record)) or 'nothing'}")
    return image


def _pixels(value: Any) -> "NDArray[np.uint8]":
    """RGB pixels [height, width, 3] of an array; of four channels the last is alpha, on white."""
    import numpy as np

    first = hasattr(value, "detach")  # a tensor has channels first where both readings are possible
    if first:
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() else value
    try:
        values = np.asarray(value)
    except ValueError:
        raise BadImage("a list of lists of several lengths is no image") from None
    if values.dtype.kind not in "buif":
        raise BadImage(f"{type(value).__name__} of {values.dtype} is no image; give its encoded bytes, or a PIL image")
    shape = values.shape
    if values.ndim == 4 and shape[0] == 1:
        values = values[0]
    if values.ndim == 2:
        values = values[..., None]
    ahead, behind = (values.ndim == 3 and values.shape[at] in _CHANNELS for at in (0, -1))
    if not ahead and not behind:
        raise BadImage(f"pixels of shape {tuple(shape)}; an image is (3, height, width) or (height, width, 3)")
    if ahead and (first or not behind):
        values = values.transpose(1, 2, 0)
    if not values.size:
        raise BadImage(f"no pixels: its shape is {tuple(shape)}")
    # Pillow wants rows of one piece.
    pixels = np.ascontiguousarray(eight_bits(values))
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    return np.asarray(rgb_image(image))


def is_object_array(value: Any) -> bool:
    """Return True for numpy's array of Python objects."""
    return getattr(getattr(value, "dtype", None), "kind", "") == "O"


def as_list(value: Any) -> list[Any]:
    """Images of a value that holds one or several, in order; none of None."""
    value = value.tolist() if is_object_array(value) else value
    if isinstance(value, list | tuple) and not is_byte_list(value) and not _is_number_list(value):
        return [item for item in value if item is not None]
    return [] if value is None else [value]


def _is_number_list(value: Sequence[Any]) -> bool:
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return isinstance(value, int | float)
