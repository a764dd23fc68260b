"""Scripted judge of generated pictures: it reads pixels, with a stated error rate, and knows neither prompt nor truth.

It looks at the cells of the grid one by one and names what stands in each by its colour and its outline. A shape that
lies across cells escapes it, as do small flaws: a shape is complete if it is large enough and its two halves mirror
each other. Each verdict is then wrong with probability `ERROR_RATE`, drawn from the picture and the criterion alone.
The evaluation uses another program, `pictures.detector`.
"""

import hashlib
import json
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.pictures.criteria import Check, parse_criterion
from rubricworks.world.pictures.drawing import BACKGROUND, CELL_SIDE, COLOURS, GRID, RGB, SIDE, read_pixels
from rubricworks.world.scene.scene import rng_of

ERROR_RATE = 0.05
_INK = 100.0
"""RGB distance from the background above which a pixel is drawn on."""
_SPECK = 40.0
_MIN_AREA = 15
_MIN_SIDE, _MIRRORED = 8, 0.9
"""Of a complete shape: pixels on its shorter side, and the share of pixels that equal their mirror image."""
_RELATIONS = {
    "left of": lambda a, b: a.column < b.column,
    "right of": lambda a, b: a.column > b.column,
    "above": lambda a, b: a.row < b.row,
    "below": lambda a, b: a.row > b.row,
}


class _Seen(NamedTuple):
    shape: str
    colour: str
    row: int
    column: int
    complete: bool


class _Picture(NamedTuple):
    seen: tuple[_Seen, ...]
    plain: bool
    """No smears between the shapes."""


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
    picture = _look(request.image)
    verdicts = []
    for criterion in criteria:
        sentence = str(criterion.get("criterion", ""))
        holds = _holds(parse_criterion(sentence), picture)
        wrong = rng_of("picture judge", seed, digest, sentence).random() < ERROR_RATE
        seen = ", ".join(f"{one.colour} {one.shape}" for one in picture.seen) or "nothing"
        verdicts.append({"id": criterion.get("id"), "reasoning": f"I see {seen}.", "score": int(holds != wrong)})
    return json.dumps({"verdicts": verdicts})


@lru_cache(maxsize=512)
def _look(image: bytes) -> _Picture:
    try:
        pixels = read_pixels(image).astype(float)
    except OSError as error:
        raise ApiError(400, "the image part is not a readable PNG or JPEG file", param="messages") from error
    if pixels.shape != (SIDE, SIDE, 3):
        raise ApiError(400, f"pictures are {SIDE}x{SIDE} pixels, this one is {pixels.shape[1]}x{pixels.shape[0]}")
    distance = np.linalg.norm(pixels - BACKGROUND, axis=2)
    seen = []
    for row in range(GRID):
        for column in range(GRID):
            area = slice(row * CELL_SIDE, (row + 1) * CELL_SIDE), slice(column * CELL_SIDE, (column + 1) * CELL_SIDE)
            if one := _read_cell(pixels[area], distance[area] > _INK, row, column):
                seen.append(one)
    return _Picture(tuple(seen), bool(((distance > _SPECK) & (distance <= _INK)).mean() < 0.02))


def _read_cell(pixels: NDArray[np.float64], ink: NDArray[np.bool_], row: int, column: int) -> _Seen | None:
    if ink.sum() < _MIN_AREA:
        return None
    ys, xs = np.nonzero(ink)
    box = ink[ys.min() : ys.max() + 1, xs.min() : xs.max() + 1]
    fill = box.mean()
    top, bottom = box[: max(1, len(box) // 4)].mean(), box[-max(1, len(box) // 4) :].mean()
    if fill > 0.9:
        shape = "square"
    elif bottom - top > 0.35:
        shape = "triangle"
    else:
        shape = "circle" if fill > 0.66 else "cross"
    median = np.median(pixels[ink], axis=0)
    colour = min(COLOURS, key=lambda one: float(np.linalg.norm(median - RGB[one])))
    complete = min(box.shape) >= _MIN_SIDE and (box == box[:, ::-1]).mean() >= _MIRRORED
    return _Seen(shape, colour, row, column, complete=bool(complete))


def _holds(check: Check | None, picture: _Picture) -> bool:
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
    return any(_RELATIONS[str(check.relation)](one, other) for one in same for other in others)
