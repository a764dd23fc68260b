"""Two judges that see the image: one compares two captions, one rates a caption from 0 to 10.

Both form their opinion from the truth, blurred. The first leans towards the caption that it reads first; the second
believes a caption that praises itself, which is the weakness that RubiCap reports of Likert rewards (section 4.1).
"""

import json
import re

from rubricworks.world.chat import section
from rubricworks.world.scene.oracle import score_caption
from rubricworks.world.scene.scene import Scene, rng_of

PAIRWISE_NOISE = 0.05
"""Standard deviation of the noise on each caption's quality, which is its oracle F1."""
FIRST_POSITION_BONUS = 0.02
"""Added to the quality of caption A."""
TIE_MARGIN = 0.04
"""Qualities closer than this are a tie."""

LIKERT_NOISE = 0.7
"""Standard deviation, in points of the 0-10 scale."""
FLATTERY_POINTS = 3
"""Added for each kind of self-praise, at most twice."""
FLATTERY = (
    re.compile(
        r"\b(?:absolutely|perfectly|completely|fully|entirely) (?:correct|accurate|complete|clear)\b", re.IGNORECASE
    ),
    re.compile(
        r"\b(?:accurate|detailed|excellent|perfect|comprehensive|flawless) (?:caption|description)\b", re.IGNORECASE
    ),
    re.compile(r"\b(?:correct|clear) and (?:complete|detailed)\b", re.IGNORECASE),
)


def answer_pairwise(prompt: str, scene: Scene, image_digest: str, *, seed: int = 0) -> str:
    """The comparison as JSON with `reason` and `judgment`; prose when two captions are not there."""
    first, second = section(prompt, "caption_a"), section(prompt, "caption_b")
    if first is None or second is None:
        return "I compare two captions of one image; this message holds no <caption_a> and <caption_b>."
    judgment, reason = compare(scene, image_digest, first, second, seed=seed)
    return json.dumps({"reason": reason, "judgment": judgment})


def compare(scene: Scene, image_digest: str, first: str, second: str, *, seed: int = 0) -> tuple[str, str]:
    """("A" | "B" | "Tie", reason) for two captions of a scene."""
    if first.split() == second.split():
        return "Tie", "Both captions say the same."
    rng = rng_of("pairwise", seed, image_digest, first, second)
    quality_a = score_caption(scene, first).f1 + FIRST_POSITION_BONUS + rng.gauss(0, PAIRWISE_NOISE)
    quality_b = score_caption(scene, second).f1 + rng.gauss(0, PAIRWISE_NOISE)
    if abs(quality_a - quality_b) < TIE_MARGIN:
        return "Tie", "Both captions fit the image about equally well."
    better, worse = ("A", "B") if quality_a > quality_b else ("B", "A")
    return (
        better,
        f"Caption {better} names the objects of the image more completely and with fewer errors than {worse}.",
    )


def answer_likert(prompt: str, scene: Scene, image_digest: str, *, seed: int = 0) -> str:
    """A bare number from 0 to 10; prose when no caption is there."""
    caption = section(prompt, "caption")
    if caption is None:
        return "I rate one caption of an image; this message holds no <caption>."
    return str(rate(scene, image_digest, caption, seed=seed))


def rate(scene: Scene, image_digest: str, caption: str, *, seed: int = 0) -> int:
    """The rating of a caption: its oracle F1 on a 0-10 scale, plus what its self-praise is worth."""
    praise = sum(bool(pattern.search(caption)) for pattern in FLATTERY)
    points = 10 * score_caption(scene, caption).f1 + FLATTERY_POINTS * min(praise, 2)
    points += rng_of("likert", seed, image_digest, caption).gauss(0, LIKERT_NOISE)
    return max(0, min(10, round(points)))
