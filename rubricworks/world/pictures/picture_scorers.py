"""Scripted peers of the rubric reward: each gives a picture one number, with the faults of the model it stands for.

They see what `picture_reading` reads, and the prompt. Their faults:

clip-like              CLIPScore: a bag of words. Is each named shape, and each named colour, anywhere in the picture?
                       Blind to number, position, and to which shape has which colour.
aesthetic-like         an aesthetic predictor: likes saturated pictures that are full; does not read the prompt.
hps-like               HPSv2: mostly the bag of words, in part the aesthetics.
unified-reward-like    Unified Reward: a multimodal rater that binds colours to shapes and knows one from several, but
                       does not count further and sees no position; five grades.
llava-reward-like      LLaVA-Reward-Phi: the same facts with positions but no number at all, and a noise of its own.
realism-like           a realism score: complete shapes and no smears; does not read the prompt.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from statistics import fmean

import numpy as np

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.pictures.criteria import parse_prompt
from rubricworks.world.pictures.drawing import BACKGROUND, read_pixels
from rubricworks.world.pictures.picture_reading import RELATION_TESTS, SeenPicture, look
from rubricworks.world.pictures.prompts import Subject, Wish
from rubricworks.world.scene.scene import rng_of

LLAVA_NOISE = 0.15
"""Standard deviation of llava-reward-like's noise, drawn from picture and prompt alone."""
_HPS_AESTHETICS = 0.3
_GRADES = 4
"""Steps of unified-reward-like's scale, which has one grade more."""


def picture_score_reply(request: ChatRequest, seed: int) -> str:
    """Score of the request's image for its prompt, by the model that the request names.

    Raises:
        ApiError: the request has no prompt, or no picture of this world's size.
    """
    prompt = section(request.prompt, "prompt")
    if prompt is None:
        raise ApiError(400, "send the prompt between <prompt> tags", param="messages")
    if request.image is None:
        raise ApiError(400, f"{request.model} scores an image; send one as an image_url part", param="messages")
    score = PICTURE_SCORERS[request.model](prompt, request.image, seed)
    return json.dumps({"score": round(score, 6)})


def _bag_of_words(prompt: str, image: bytes, _: int) -> float:
    wish, picture = parse_prompt(prompt), look(image)
    words = _subjects(wish)
    if not words:
        return 0.0
    named = [any(shape.shape == subject.shape for shape in picture.seen) for subject in words]
    named += [any(shape.colour == subject.colour for shape in picture.seen) for subject in words if subject.colour]
    return fmean(named)


def _aesthetics(_: str, image: bytes, __: int) -> float:
    look(image)
    return _vividness(image)


@lru_cache(maxsize=512)
def _vividness(image: bytes) -> float:
    """Half the saturation of what is drawn, half how full the picture is, in [0, 1]."""
    pixels = read_pixels(image).astype(float) / 255
    highest, lowest = pixels.max(axis=2), pixels.min(axis=2)
    drawn = np.abs(pixels - np.array(BACKGROUND) / 255).max(axis=2) > 0.2
    if not drawn.any():
        return 0.0
    saturation = np.divide(highest - lowest, highest, out=np.zeros_like(highest), where=highest > 0)[drawn].mean()
    return float((saturation + min(1.0, 2 * drawn.mean())) / 2)


def _preference(prompt: str, image: bytes, seed: int) -> float:
    return (1 - _HPS_AESTHETICS) * _bag_of_words(prompt, image, seed) + _HPS_AESTHETICS * _vividness(image)


def _grade(prompt: str, image: bytes, _: int) -> float:
    wish, picture = parse_prompt(prompt), look(image)
    facts = [fact for subject in _subjects(wish) for fact in _bound_facts(subject, picture)]
    facts += [(_count(subject, picture) > 1) == (subject.count > 1) for subject in _subjects(wish)]
    return round(fmean(facts) * _GRADES) / _GRADES if facts else 0.0


def _noisy_rating(prompt: str, image: bytes, seed: int) -> float:
    wish, picture = parse_prompt(prompt), look(image)
    facts = [fact for subject in _subjects(wish) for fact in _bound_facts(subject, picture)]
    if wish is not None and wish.second is not None and wish.relation is not None:
        firsts = [shape for shape in picture.seen if shape.shape == wish.first.shape]
        seconds = [shape for shape in picture.seen if shape.shape == wish.second.shape]
        facts.append(any(RELATION_TESTS[wish.relation](a, b) for a in firsts for b in seconds))
    noise = rng_of("llava reward", seed, hashlib.sha256(image).hexdigest(), prompt).gauss(0, LLAVA_NOISE)
    return (fmean(facts) if facts else 0.0) + noise


def _realism(_: str, image: bytes, __: int) -> float:
    picture = look(image)
    complete = fmean(shape.complete for shape in picture.seen) if picture.seen else 0.0
    return (complete + picture.plain) / 2


def _subjects(wish: Wish | None) -> list[Subject]:
    return [] if wish is None else [wish.first, *([wish.second] if wish.second else [])]


def _bound_facts(subject: Subject, picture: SeenPicture) -> list[bool]:
    """Is the shape there, and has one of its kind the colour?"""
    same = [shape for shape in picture.seen if shape.shape == subject.shape]
    facts = [bool(same)]
    if subject.colour:
        facts.append(any(shape.colour == subject.colour for shape in same))
    return facts


def _count(subject: Subject, picture: SeenPicture) -> int:
    return sum(shape.shape == subject.shape for shape in picture.seen)


PICTURE_SCORERS: Mapping[str, Callable[[str, bytes, int], float]] = {
    "clip-like": _bag_of_words,
    "aesthetic-like": _aesthetics,
    "hps-like": _preference,
    "unified-reward-like": _grade,
    "llava-reward-like": _noisy_rating,
    "realism-like": _realism,
}
"""Served name → score of (prompt, image, the world's seed)."""
