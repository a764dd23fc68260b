"""Points: closeness, optimally paired (RLR³, table 7, `point_verify`)."""

import math

from rubricworks.verifiers.boxes import finite_numbers, wanted_numbers
from rubricworks.verifiers.failure import CannotVerify, shown
from rubricworks.verifiers.matching import MOST_PAIRS, best_total, best_total_of_matrix

_FEW_PAIRS = 60
"""Up to here plain Python is faster than NumPy."""


def point_verify(predict: object, *, target: object, radius: float = 100.0) -> float:
    """Sum of max(0, 1 - distance / radius) over the best pairing, divided by the larger number of points; in [0, 1].

    The paper converts matched distances "into a normalised proximity score" and gives no formula: this linear one falls
    to 0 at `radius`, a tenth of the normalised image by default. An invalid point in the prediction counts and scores
    0. No point on either side: 1.

    Args:
        predict: points [x, y] as the response gives them, faults included.
        target: the right points, normalised to 0-1000.
        radius: the distance from which on a point is simply wrong.
    Raises:
        CannotVerify: the target is not a list of points, or has more than 2,000; or the radius is not positive.

    >>> point_verify([[589, 236]], target=[[591, 234]])
    0.9717...
    """
    if type(radius) not in (int, float) or not 0 < radius < math.inf:
        raise CannotVerify(f"radius {shown(radius)} is not a positive number")
    points = wanted_numbers(target, 2, "a point [x, y]")
    if not isinstance(predict, list | tuple):
        return 0.0
    predicted = [point for item in predict if (point := finite_numbers(item, 2)) is not None]
    larger = max(len(predict), len(points))
    if larger == 0:
        return 1.0
    pairs = len(predicted) * len(points)
    if pairs == 0 or pairs > MOST_PAIRS:
        return 0.0
    if pairs <= _FEW_PAIRS:
        hypot = math.hypot
        near = [[max(0.0, 1 - hypot(x - a, y - b) / radius) for a, b in points] for x, y in predicted]
        return best_total(near) / larger
    import numpy as np  # here, so that few points, the rule, need no NumPy

    between_NM2 = np.array(predicted, float)[:, None] - np.array(points, float)[None]
    near_NM = np.clip(1 - np.hypot(between_NM2[..., 0], between_NM2[..., 1]) / radius, 0, None)
    return best_total_of_matrix(near_NM) / larger
