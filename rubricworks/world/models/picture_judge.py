"""Scripted judge of generated pictures: it reads pixels, with a stated error rate, and knows neither prompt nor truth.

It sees what `picture_reading` reads. Each verdict is then wrong with probability `ERROR_RATE`, drawn from the picture
and the criterion alone. The evaluation uses another program, `pictures.detector`.
"""

import hashlib
import json

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.models.picture_reading import RELATION_TESTS, SeenPicture, look
from rubricworks.world.pictures.criteria import Check, parse_criterion
from rubricworks.world.scene.scene import rng_of

ERROR_RATE = 0.05


def picture_judge_reply(request: ChatRequest, seed: int) -> str:
    """Verdicts on the criteria of the request about its image.

    Raises:
        ApiError: the request has no criteria, or no picture of this world's size.
    """
    try:
        criteria = json.loads(section(request.prompt, "criteria") or "")
    except ValueError as error:
        raise ApiError(400, "send the criteria as a JSON list between <criteria> tags", param="messages") from error
    if request.image is None:
        raise ApiError(400, "picture-judge looks at an image; send one as an image_url part", param="messages")
    digest = hashlib.sha256(request.image).hexdigest()
    picture = look(request.image)
    verdicts = []
    for criterion in criteria:
        sentence = str(criterion.get("criterion", ""))
        holds = _holds(parse_criterion(sentence), picture)
        wrong = rng_of("picture judge", seed, digest, sentence).random() < ERROR_RATE
        seen = ", ".join(f"{one.colour} {one.shape}" for one in picture.seen) or "nothing"
        verdicts.append({"id": criterion.get("id"), "reasoning": f"I see {seen}.", "score": int(holds != wrong)})
    return json.dumps({"verdicts": verdicts})


def _holds(check: Check | None, picture: SeenPicture) -> bool:
    if check is None:  # a criterion that it does not understand
        return False
    if check.kind == "sharp":
        return bool(picture.seen) and all(one.complete for one in picture.seen)
    if check.kind == "plain":
        return picture.plain
    if check.kind == "total":
        return len(picture.seen) == check.total
    assert check.subject is not None
    same = [one for one in picture.seen if one.shape == check.subject.shape]
    if check.kind == "presence":
        return bool(same)
    if check.kind == "count":
        return len(same) == check.subject.count
    if check.kind == "colour":
        return bool(same) and all(one.colour == check.subject.colour for one in same)
    others = [one for one in picture.seen if one.shape == check.other]
    return any(RELATION_TESTS[str(check.relation)](one, other) for one in same for other in others)
