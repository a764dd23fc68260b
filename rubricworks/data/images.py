"""Image normalisation: upright RGB, bounded size, PNG or JPEG, without metadata.

An image that already fits keeps its pixels' bytes, so that a model sees exactly the user's picture; what else the file
holds, such as where it was taken, is cut out.
"""

import hashlib
import io
import struct
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageOps, UnidentifiedImageError

from rubricworks.data.image_metadata import strip_metadata

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_BYTES = 100 * 2**20
MAX_PIXELS = 89_478_485
"""Pillow's own limit against decompression bombs: a quarter of a gibibyte of RGB."""

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000")
"""Raster formats only: some of Pillow's others start programs (EPS). Availability depends on Pillow's build."""
_LOSSLESS = ("PNG", "GIF", "BMP", "TIFF", "PPM")
_JPEG_QUALITY = 95
_DECODER_ERRORS = (
    *(OSError, EOFError, SyntaxError, ValueError, TypeError, LookupError),
    *(AttributeError, ArithmeticError, RuntimeError, struct.error),
)
"""Exceptions of Pillow's decoders on damaged files; the AVIF decoder raises RuntimeError."""
_OVERSHOOT = 0.05
"""Tolerance for a decoder's pixels outside the range from 0 to 1."""
_OPENING = threading.Lock()
"""Warning filters belong to the process, not to a thread."""


_NO_IMAGE = b"no image: "


class BadImage(ValueError):
    """The bytes are not a usable image; the message says why."""


def no_image(reason: str) -> bytes:
    """Content in the place of an image that there is none of: every reader refuses it with the reason."""
    return _NO_IMAGE + reason.encode()


NO_PIXELS = no_image("the decoder returned pixels that are no numbers")
"""Content of an image that a decoder made no pixels of."""


def normalise_image(content: bytes, *, max_side: int | None = None) -> bytes:
    """Convert an image to upright RGB, alpha on white, without metadata: PNG if the source is lossless, else JPEG.

    Args:
        max_side: bound on the longer side in pixels; None keeps every size.
    Raises:
        BadImage: not an image, truncated, or larger than the limits on bytes and pixels.
    """
    with _decoded(content, _FORMATS) as image:
        return _encode(image, content, max_side)


def check_image(content: bytes, media_type: str) -> None:
    """Decode an image whole, to learn that it can be.

    Args:
        media_type: its format, `image/png` or `image/jpeg`.
    Raises:
        BadImage: not an image of this format, truncated, or larger than the limits on bytes and pixels.
    """
    with _decoded(content, (media_type.removeprefix("image/").upper(),)):
        pass


def image_fault(content: bytes) -> str:
    """Reason why no judge can be shown an image, by its first bytes: it is neither PNG nor JPEG; empty if one can."""
    if content.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")):
        return ""
    if content.startswith(_NO_IMAGE):
        return content.removeprefix(_NO_IMAGE).decode(errors="replace")
    return f"neither PNG nor JPEG: it starts with {content[:8]!r}"


def rgb_image(image: Image.Image) -> Image.Image:
    """Upright RGB of an image that is open already, its alpha on white, and of its present frame.

    Raises:
        BadImage: it has no pixels, too many, or none that can be read.
    """
    try:
        _check_size(*image.size)
        return _rgb(ImageOps.exif_transpose(image))
    except BadImage:
        raise
    except _DECODER_ERRORS as error:
        raise BadImage(f"damaged image: {error}") from None


@contextmanager
def _decoded(content: bytes, formats: Sequence[str]) -> Iterator[Image.Image]:
    """Open and decode an image; an error of the decoder, also later in the block, becomes a BadImage."""
    if not content:
        raise BadImage("the file is empty")
    if content.startswith(_NO_IMAGE):
        raise BadImage(image_fault(content))
    if len(content) > MAX_BYTES:
        raise BadImage(f"too large: {len(content):,} bytes, at most {MAX_BYTES:,} are read")
    try:
        with _OPENING, warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            Image.init()
            image = Image.open(io.BytesIO(content), formats=[name for name in formats if name in Image.OPEN])
        _check_size(*image.size)
        image.load()
        yield image
    except BadImage:
        raise
    except UnidentifiedImageError:
        raise BadImage(f"not an image: no known image format starts with {content[:8]!r}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise BadImage(f"too large: {error}") from None
    except _DECODER_ERRORS as error:
        raise BadImage(f"damaged image: {error}") from None


def _check_size(width: int, height: int) -> None:
    if not width * height:
        raise BadImage(f"no pixels: its size is {width} x {height}")
    if width * height > MAX_PIXELS:
        raise BadImage(f"too large: {width} x {height} pixels, at most {MAX_PIXELS:,} are read")


def png_bytes(pixels: "NDArray[np.uint8]") -> bytes:
    """Encode RGB pixels [height, width, 3] as PNG."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def image_digest(content: bytes) -> str:
    """sha256 of an image's RGB pixels and size: equal for equal pictures, however they are encoded."""
    with Image.open(io.BytesIO(content)) as image:
        rgb = image.convert("RGB")
    return hashlib.sha256(f"{rgb.width}x{rgb.height}:".encode() + rgb.tobytes()).hexdigest()


def _encode(image: Image.Image, content: bytes, max_side: int | None) -> bytes:
    upright = ImageOps.exif_transpose(image)
    turned = image.getexif().get(0x0112, 1) != 1
    small = max_side is None or max(image.size) <= max_side
    plain = image.mode == "RGB" and "transparency" not in image.info and not getattr(image, "is_animated", False)
    if image.format in ("PNG", "JPEG") and plain and small and not turned:
        stripped = strip_metadata(content)
        if stripped is not None:
            return stripped
    rgb = _rgb(upright)
    if max_side is not None and not small:
        scale = max_side / max(rgb.size)
        size = (max(1, round(rgb.width * scale)), max(1, round(rgb.height * scale)))
        rgb = rgb.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
    buffer = io.BytesIO()
    # A new image from the pixels carries none of the file's metadata.
    rgb = Image.frombytes("RGB", rgb.size, rgb.tobytes())
    if image.format in _LOSSLESS or (image.format == "WEBP" and content[12:16] == b"VP8L"):
        rgb.save(buffer, "PNG")
    else:
        rgb.save(buffer, "JPEG", quality=_JPEG_QUALITY)
    return buffer.getvalue()


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith(("I", "F")):  # more than 8 bits per pixel, which convert("RGB") would clip to white
        import numpy as np

        return Image.fromarray(eight_bits(np.asarray(image))).convert("RGB")
    if image.mode == "La":
        image = image.convert("LA")
    if image.has_transparency_data:
        layers = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layers.size, "white"), layers).convert("RGB")
    return image.convert("RGB")


def eight_bits(values: "NDArray[Any]") -> "NDArray[np.uint8]":
    """Pixels as bytes: numbers of 16 bits by their upper half, fractions from 0 to 1 times 255, others as they are.

    Whole numbers and floats are of 16 bits where one is above 255, and scaled by the largest where one is above 65,535.

    Raises:
        BadImage: they are negative, or not finite.
    """
    import numpy as np

    if values.dtype == np.uint8:
        return values
    if values.dtype == np.bool_:
        return values.astype(np.uint8) * np.uint8(255)
    is_fraction = np.issubdtype(values.dtype, np.floating)
    numbers = values.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise BadImage("its pixels are not finite numbers")
    low, high = float(numbers.min()), float(numbers.max())
    if is_fraction and low >= -_OVERSHOOT and high <= 1 + _OVERSHOOT:
        return (numbers * 255).round().clip(0, 255).astype(np.uint8)
    if low < 0:
        raise BadImage(f"its pixels go from {low:g} to {high:g}; give numbers from 0 to 255, or from 0 to 1")
    if values.dtype == np.uint16 or 255 < high <= 65_535:
        return (numbers // 256).astype(np.uint8)
    return (numbers if high <= 255 else numbers * (255 / high)).round().astype(np.uint8)
