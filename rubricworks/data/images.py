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
from typing import TYPE_CHECKING

from PIL import Image, ImageOps, UnidentifiedImageError

from rubricworks.data.image_metadata import strip_metadata

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_BYTES = 100 * 2**20
MAX_PIXELS = 89_478_485
"""Pillow's own limit against decompression bombs: a quarter of a gibibyte of RGB."""

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")
"""Raster formats only: some of Pillow's others start programs (EPS). Availability depends on Pillow's build."""
_LOSSLESS = ("PNG", "GIF", "BMP", "TIFF", "PPM")
_JPEG_QUALITY = 95
_DECODER_ERRORS = (
    *(OSError, EOFError, SyntaxError, ValueError, TypeError, LookupError),
    *(AttributeError, ArithmeticError, RuntimeError, struct.error),
)
"""Exceptions of Pillow's decoders on damaged files; the AVIF decoder raises RuntimeError."""
_OPENING = threading.Lock()
"""Warning filters belong to the process, not to a thread."""


NO_PIXELS = b"the decoder returned pixels that are no numbers"
"""Content of an image that a decoder made no pixels of; `check_image` gives it as the reason."""


class BadImage(ValueError):
    """The bytes are not a usable image; the message says why."""


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


@contextmanager
def _decoded(content: bytes, formats: Sequence[str]) -> Iterator[Image.Image]:
    """Open and decode an image; an error of the decoder, also later in the block, becomes a BadImage."""
    if not content:
        raise BadImage("the file is empty")
    if content == NO_PIXELS:
        raise BadImage(NO_PIXELS.decode())
    if len(content) > MAX_BYTES:
        raise BadImage(f"too large: {len(content):,} bytes, at most {MAX_BYTES:,} are read")
    try:
        with _OPENING, warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            Image.init()
            image = Image.open(io.BytesIO(content), formats=[name for name in formats if name in Image.OPEN])
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise BadImage(f"too large: {width} x {height} pixels, at most {MAX_PIXELS:,} are read")
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
    if image.mode.startswith("I"):  # 16 bits per pixel, which convert("RGB") would clip to white
        import numpy as np

        values = np.asarray(image).astype(np.int64).clip(0, 65_535)
        return Image.fromarray((values >> 8).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        layers = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layers.size, "white"), layers).convert("RGB")
    return image.convert("RGB")
