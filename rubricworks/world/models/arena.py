"""A judge of pairs that weighs what the captions say and how they are written, as people do in an arena.

`pairwise-judge` compares truth alone. This one's idea of a caption's quality is half its oracle F1 and half its
writing, blurred alike; it too leans towards the caption that it reads first.
"""

import json

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.models.image_judges import FIRST_POSITION_BONUS, PAIRWISE_NOISE, TIE_MARGIN
from rubricworks.world.scene.caption_quality import writing
from rubricworks.world.scene.oracle import score_caption
from rubricworks.world.scene.scene import Scene, rng_of

NOTHING_TO_COMPARE = "I compare two captions of one image; this message holds no <caption_a> and <caption_b>."


def answer_arena(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The comparison as JSON with `reason` and `judgment`; prose when two captions are not there."""
    if scene is None:
        raise ApiError(400, "arena-judge looks at an image; send one as an image_url part", param="messages")
    first, second = section(request.prompt, "caption_a"), section(request.prompt, "caption_b")
    if first is None or second is None:
        return NOTHING_TO_COMPARE
    judgment, reason = _compare(scene, first, second, seed)
    return json.dumps({"reason": reason, "judgment": judgment})


def quality(scene: Scene, caption: str) -> float:
    """From 0 to 1: the mean of oracle F1 and the writing's mean, counted from 0 for 1 point to 1 for 10."""
    points = writing(caption)
    return (score_caption(scene, caption).f1 + (sum(points) / len(points) - 1) / 9) / 2


def _compare(scene: Scene, first: str, second: str, seed: int) -> tuple[str, str]:
    if first.split() == second.split():
        return "Tie", "Both captions say the same."
    rng = rng_of("arena", seed, scene.model_dump_json(), first, second)
    quality_a = quality(scene, first) + FIRST_POSITION_BONUS + rng.gauss(0, PAIRWISE_NOISE)
    quality_b = quality(scene, second) + rng.gauss(0, PAIRWISE_NOISE)
    if abs(quality_a - quality_b) < TIE_MARGIN:
        return "Tie", "Both captions describe the image about equally well."
    better, worse = ("A", "B") if quality_a > quality_b else ("B", "A")
    return better, f"Caption {better} fits the image and reads better than {worse}, all in all."
