"""Boxes: intersection over union, optimally paired (RLR³, table 7, `bbox_verify`)."""

import math
from collections.abc import Sequence
from typing import Any

from rubricworks.verifiers.failure import CannotVerify, shown
from rubricworks.verifiers.matching import MOST_PAIRS, best_total, best_total_of_matrix

Numbers = Sequence[float]

_LARGEST = 1e9
"""Coordinates beyond it are no coordinates: areas stay exact enough."""
_FEW_PAIRS = 40
"""Up to here plain Python is faster than NumPy."""


def bbox_verify(predict: object, *, target: object) -> float:
    """Sum of the intersection over union of the best pairing, divided by the larger number of boxes; in [0, 1].

    A box is [x1, y1, x2, y2] with x1 < x2 and y1 < y2, normalised to 0-1000 (any unit will do); its area is (x2 - x1) *
    (y2 - y1). A box without area overlaps nothing. An invalid box in the prediction (three numbers, words, infinity)
    counts and scores 0. No box on either side: 1.

    Args:
        predict: boxes as the response gives them, faults included.
        target: the right boxes.
    Raises:
        CannotVerify: the target is not a list of boxes, or has more than 2,000.

    >>> bbox_verify([[529, 119, 890, 433]], target=[[531, 118, 892, 435]])
    0.9796...
    >>> bbox_verify([[0, 0, 10, 10], [0, 0, 10, 10]], target=[[0, 0, 10, 10]])
    0.5
    """
    boxes = wanted_numbers(target, 4, "a box [x1, y1, x2, y2]")
    if not isinstance(predict, list | tuple):
        return 0.0
    predicted = [box for item in predict if (box := finite_numbers(item, 4)) is not None]
    larger = max(len(predict), len(boxes))
    if larger == 0:
        return 1.0
    pairs = len(predicted) * len(boxes)
    if pairs == 0 or pairs > MOST_PAIRS:
        return 0.0
    if pairs == 1:
        return _overlap(predicted[0], boxes[0]) / larger
    if pairs <= _FEW_PAIRS:
        return best_total([[_overlap(box, wanted) for wanted in boxes] for box in predicted]) / larger
    return best_total_of_matrix(_overlaps(predicted, boxes)) / larger


def finite_numbers(item: Any, count: int) -> Any:
    """The item if it is the expected count of finite numbers of reasonable size, else None."""
    if type(item) not in (list, tuple) or len(item) != count:
        return None
    for number in item:
        if (type(number) is not int and type(number) is not float) or not -_LARGEST <= number <= _LARGEST:
            return None
    return item


def wanted_numbers(target: object, count: int, what: str) -> Sequence[Numbers]:
    """The items of a target, all of them sound.

    Raises:
        CannotVerify: they are not.
    """
    if not isinstance(target, list | tuple):
        raise CannotVerify(f"target {shown(target)} is not a list, each item {what}")
    if len(target) ** 2 > MOST_PAIRS:
        raise CannotVerify(f"target has {len(target):,} items; at most {math.isqrt(MOST_PAIRS):,} can be paired")
    items = []
    for number, item in enumerate(target):
        if (numbers := finite_numbers(item, count)) is None:
            raise CannotVerify(f"target item {number}: {shown(item)} is not {what} of finite numbers")
        items.append(numbers)
    return items


def _overlap(a: Numbers, b: Numbers) -> float:
    left, top, right, bottom = a
    other_left, other_top, other_right, other_bottom = b
    size, other_size = (right - left) * (bottom - top), (other_right - other_left) * (other_bottom - other_top)
    if right <= left or bottom <= top or other_right <= other_left or other_bottom <= other_top:
        return 0.0
    width = (right if right < other_right else other_right) - (left if left > other_left else other_left)
    height = (bottom if bottom < other_bottom else other_bottom) - (top if top > other_top else other_top)
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / (size + other_size - shared)


def _overlaps(predicted: Sequence[Numbers], boxes: Sequence[Numbers]) -> Any:
    import numpy as np  # here, so that few boxes, the rule, need no NumPy

    a_N4, b_M4 = np.array(predicted, float), np.array(boxes, float)
    low_NM2 = np.maximum(a_N4[:, None, :2], b_M4[None, :, :2])
    high_NM2 = np.minimum(a_N4[:, None, 2:], b_M4[None, :, 2:])
    shared_NM = np.clip(high_NM2 - low_NM2, 0, None).prod(axis=2)
    a_N, b_M = ((box[:, 2:] - box[:, :2]).clip(0).prod(axis=1) for box in (a_N4, b_M4))
    shared_NM[(a_N == 0)[:, None] | (b_M == 0)[None, :]] = 0
    union_NM = a_N[:, None] + b_M[None, :] - shared_NM
    return np.divide(shared_NM, union_NM, out=np.zeros_like(shared_NM), where=shared_NM > 0)
