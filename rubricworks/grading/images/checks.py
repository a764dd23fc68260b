"""Check of a generated image before any model sees it."""

import asyncio
from typing import TYPE_CHECKING

from rubricworks.errors import UserError
from rubricworks.rubrics import Response

if TYPE_CHECKING:
    from rubricworks.data.tables import Sample


async def image_problem(sample: "Sample", response: Response) -> str:
    """Reason why no decoder reads the image; empty if one does.

    Raises:
        UserError: the image's bytes are missing.
    """
    from rubricworks.data.images import BadImage, check_image

    if response.image is None or response.media_type is None:
        raise UserError(
            f"sample {sample.label}: the response is an image of which only the digest is known "
            f"({response.digest[:12]}); add its bytes with Response.with_image"
        )
    try:
        await asyncio.to_thread(check_image, response.image, response.media_type)
    except BadImage as error:
        return str(error)
    return ""
