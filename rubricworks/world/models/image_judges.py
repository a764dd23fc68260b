"""Judges that see the image: two compare a pair of captions, one rates a caption from 0 to 10, one ranks several.

All blur the truth with noise. `pairwise-judge` compares oracle F1; `arena-judge` weighs truth and writing, as people do
in an arena. Both lean towards the caption that they read first. `likert-judge` believes a caption that praises itself,
the weakness that RubiCap reports of Likert rewards (section 4.1), and trusts a reference as much as its eyes.

`ranking-judge` gives each of several captions four scores: accuracy follows the oracle's precision, completeness its
recall, clarity the writing, and the hallucination penalty the share of stated objects that the scene does not hold. No
position is preferred.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Callable

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.scene.caption_quality import writing_scores
from rubricworks.world.scene.oracle import score_caption
from rubricworks.world.scene.parsing import mentions
from rubricworks.world.scene.scene import Scene, rng_of

PAIRWISE_NOISE = 0.05
"""Standard deviation of the noise on each caption's quality."""
FIRST_POSITION_BONUS = 0.02
"""Added to the quality of caption A."""
TIE_MARGIN = 0.04
"""Qualities closer than this are a tie."""
NOTHING_TO_COMPARE = "I compare two captions of one image; this message holds no <caption_a> and <caption_b>."

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


def pairwise_judge_reply(prompt: str, scene: Scene, image_digest: str, *, seed: int = 0) -> str:
    """The comparison as JSON with `reason` and `judgment`; prose without two captions."""
    first, second = section(prompt, "caption_a"), section(prompt, "caption_b")
    if first is None or second is None:
        return NOTHING_TO_COMPARE
    judgment, reason = compare(scene, image_digest, first, second, seed=seed)
    return json.dumps({"reason": reason, "judgment": judgment})


def compare(scene: Scene, image_digest: str, first: str, second: str, *, seed: int = 0) -> tuple[str, str]:
    """The pairwise judge's ("A" | "B" | "Tie", reason) for two captions of a scene."""
    return _compare(
        first,
        second,
        lambda caption: score_caption(scene, caption).f1,
        rng_of("pairwise", seed, image_digest, first, second),
        tie="Both captions fit the image about equally well.",
        win="Caption {} names the objects of the image more completely and with fewer errors than {}.",
    )


def arena_judge_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The comparison as JSON with `reason` and `judgment`; prose without two captions."""
    if scene is None:
        raise ApiError(400, "arena-judge looks at an image; send one as an image_url part", param="messages")
    first, second = section(request.prompt, "caption_a"), section(request.prompt, "caption_b")
    if first is None or second is None:
        return NOTHING_TO_COMPARE
    judgment, reason = arena_compare(scene, first, second, seed=seed)
    return json.dumps({"reason": reason, "judgment": judgment})


def arena_compare(scene: Scene, first: str, second: str, *, seed: int = 0) -> tuple[str, str]:
    """The arena judge's ("A" | "B" | "Tie", reason) for two captions of a scene."""
    return _compare(
        first,
        second,
        lambda caption: arena_quality(scene, caption),
        rng_of("arena", seed, scene.model_dump_json(), first, second),
        tie="Both captions describe the image about equally well.",
        win="Caption {} fits the image and reads better than {}, all in all.",
    )


def arena_quality(scene: Scene, caption: str) -> float:
    """Mean of the caption's oracle F1 and its mean writing score, rescaled from 1-10 to 0-1."""
    points = writing_scores(caption)
    return (score_caption(scene, caption).f1 + (sum(points) / len(points) - 1) / 9) / 2


def likert_judge_reply(prompt: str, scene: Scene, image_digest: str, *, seed: int = 0) -> str:
    """A bare number from 0 to 10; prose without a caption."""
    caption = section(prompt, "caption")
    if caption is None:
        return "I rate one caption of an image; this message holds no <caption>."
    return str(rate(scene, image_digest, caption, section(prompt, "reference"), seed=seed))


def rate(scene: Scene, image_digest: str, caption: str, reference: str | None = None, *, seed: int = 0) -> int:
    """The Likert rating of a caption: its oracle F1 on a 0-10 scale, plus points for self-praise.

    Args:
        reference: another caption, right or not; half of the rating is then the F1 of the caption's objects with its.
    """
    praise = sum(bool(pattern.search(caption)) for pattern in FLATTERY)
    quality = score_caption(scene, caption).f1
    if reference is not None:
        quality = (quality + _agreement(caption, reference)) / 2
    points = 10 * quality + FLATTERY_POINTS * min(praise, 2)
    points += rng_of("likert", seed, image_digest, caption).gauss(0, LIKERT_NOISE)
    return max(0, min(10, round(points)))


def _agreement(caption: str, reference: str) -> float:
    """F1 of the objects that a caption states with those of the reference; 1 if neither states any."""
    objects, other = Counter(mentions(caption).objects), Counter(mentions(reference).objects)
    stated = objects.total() + other.total()
    return 2 * (objects & other).total() / stated if stated else 1.0


def _compare(
    first: str, second: str, quality: Callable[[str], float], rng: random.Random, *, tie: str, win: str
) -> tuple[str, str]:
    """(judgment, reason) by noisy quality; `tie` and `win` are the reasons for a tie and for a winner over a loser."""
    if first.split() == second.split():
        return "Tie", "Both captions say the same."
    quality_a = quality(first) + FIRST_POSITION_BONUS + rng.gauss(0, PAIRWISE_NOISE)
    quality_b = quality(second) + rng.gauss(0, PAIRWISE_NOISE)
    if abs(quality_a - quality_b) < TIE_MARGIN:
        return "Tie", tie
    better, worse = ("A", "B") if quality_a > quality_b else ("B", "A")
    return better, win.format(better, worse)


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
