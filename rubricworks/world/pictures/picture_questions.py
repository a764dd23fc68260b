"""Scripted answerer of yes-or-no questions about a picture, for DPG-Bench; it errs at a stated rate.

It sees what `picture_reading.look_at_regions` reads, with draws of its own, and does not read the prompt.
"""

import hashlib
import json

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.pictures.dpg_questions import check_of
from rubricworks.world.pictures.picture_judge import holds
from rubricworks.world.pictures.picture_reading import look_at_regions
from rubricworks.world.scene.scene import rng_of

ERROR_RATE = 0.03


def picture_questions_reply(request: ChatRequest, seed: int) -> str:
    """Answer the request's question about its image.

    Raises:
        ApiError: the request has no question, or no picture of this world's size.
    """
    question = section(request.prompt, "question")
    if question is None:
        raise ApiError(400, "send the question between <question> tags", param="messages")
    if request.image is None:
        raise ApiError(400, f"{request.model} looks at an image; send one as an image_url part", param="messages")
    right = holds(check_of(question), look_at_regions(request.image))
    digest = hashlib.sha256(request.image).hexdigest()
    wrong = rng_of("picture questions", seed, digest, question).random() < ERROR_RATE
    return json.dumps({"answer": "yes" if right != wrong else "no"})
