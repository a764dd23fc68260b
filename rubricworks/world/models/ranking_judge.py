"""The scripted judge of the blind ranking: four scores for each of several captions of one image.

Accuracy follows the oracle's precision, completeness its recall, clarity the writing, and the hallucination penalty the
share of stated objects that the scene does not hold. Each is off by noise; no position is preferred.
"""

import json

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.scene.caption_quality import writing_scores
from rubricworks.world.scene.oracle import score_caption
from rubricworks.world.scene.scene import Scene, rng_of

RANKING_NOISE = 0.4
"""Standard deviation of each score, in points of the 0-10 scale."""
NOTHING_TO_RANK = "I rank captions of one image; this message holds no <caption_a>."


def ranking_judge_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The assessments as JSON; prose without captions."""
    if scene is None:
        raise ApiError(400, "ranking-judge looks at an image; send one as an image_url part", param="messages")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    captions = {
        letter: caption
        for letter in letters
        if (caption := section(request.prompt, f"caption_{letter.lower()}")) is not None
    }
    if not captions:
        return NOTHING_TO_RANK
    return json.dumps({"assessments": [_assess(scene, letter, text, seed) for letter, text in captions.items()]})


def _assess(scene: Scene, letter: str, caption: str, seed: int) -> dict[str, object]:
    rng = rng_of("ranking", seed, scene.model_dump_json(), caption)

    def points(share: float) -> int:
        return max(0, min(10, round(10 * share + rng.gauss(0, RANKING_NOISE))))

    truth, writing = score_caption(scene, caption), writing_scores(caption)
    invented = (truth.objects_named - truth.objects_right) / truth.objects_named if truth.objects_named else 0.0
    return {
        "caption": letter,
        "justification": f"{truth.objects_right} of {truth.objects_present} objects are named as they are.",
        "accuracy": points(truth.precision),
        "completeness": points(truth.recall),
        "clarity": points((sum(writing) / len(writing) - 1) / 9),
        "hallucination_penalty": points(invented),
    }
