"""Captioned pictures of one size, which image generators are trained on."""

import hashlib
import io
from typing import TYPE_CHECKING

from rubricworks.data.rows import iter_rows
from rubricworks.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def read_pictures(source: str, count: int | None = None) -> tuple[list[str], "NDArray[np.uint8]", str]:
    """Read captions, pixels [N, height, width, 3], and a digest of both.

    Raises:
        UserError: a row has no caption or no readable image, or the images differ in size.
    """
    import numpy as np
    from PIL import Image

    captions: list[str] = []
    images: list[NDArray[np.uint8]] = []
    digest = hashlib.sha256()
    for number, row in enumerate(iter_rows(source, ["image", "caption"]), start=1):
        if count is not None and number > count:
            break
        try:
            with Image.open(io.BytesIO(row["image"])) as picture:
                pixels = np.asarray(picture.convert("RGB"))
            caption = str(row["caption"].strip())
        except (OSError, TypeError, AttributeError, ValueError) as error:
            raise UserError(f"{source}: row {number} has no readable picture with a caption ({error})") from error
        if images and pixels.shape != images[0].shape:
            (height, width), (first_height, first_width) = pixels.shape[:2], images[0].shape[:2]
            raise UserError(
                f"{source}: row {number} is {width}x{height} pixels, the first {first_width}x{first_height}; a "
                "generator has one size"
            )
        digest.update(caption.encode() + b"\0" + pixels.tobytes())
        captions.append(caption)
        images.append(pixels)
    if not images:
        raise UserError(f"{source}: no pictures")
    return captions, np.stack(images), digest.hexdigest()
