"""Scripted reader of text in a picture: it finds lettering and, at this size, spells none of it."""

import json

from rubricworks.world.chat import ApiError, ChatRequest
from rubricworks.world.pictures.drawing import read_pixels
from rubricworks.world.pictures.lettering import find_lettering

ILLEGIBLE = "?"
"""Transcription of every box."""


def picture_reader_reply(request: ChatRequest, _: int) -> str:
    """Boxes of lettering in the request's image.

    Raises:
        ApiError: the request has no readable image.
    """
    if request.image is None:
        raise ApiError(400, "picture-reader looks at an image; send one as an image_url part", param="messages")
    try:
        pixels = read_pixels(request.image)
    except OSError as error:
        raise ApiError(400, "the image part is not a readable PNG or JPEG file", param="messages") from error
    return json.dumps({"texts": [{"text": ILLEGIBLE, "box": list(box)} for box in find_lettering(pixels)]})
