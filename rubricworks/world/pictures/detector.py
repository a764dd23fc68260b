"""Detector of the shapes in a picture, by its pixels alone: the oracle of text-to-image.

It plays GenEval's object detector and colour classifier, and `metrics.geneval_correct` applies the official rules to
what it finds. It knows neither prompt nor grid: each pixel takes the nearest colour, connected pixels of one colour
are an object if they fit a shape. It is another program than the judge that rewards (`pictures.picture_judge`).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from rubricworks.world.pictures.drawing import BACKGROUND, COLOURS, RGB, SHAPES, shape_mask

_MAX_DISTANCE = 90.0
"""Farthest RGB distance at which a pixel counts as a colour."""
_MIN_SIDE, _MAX_SIDE = 7, 13
_MIN_FIT = 0.75
"""Lowest intersection over union with a shape's mask."""


class Detection(NamedTuple):
    """An object in a picture."""

    shape: str
    colour: str
    box: tuple[int, int, int, int]
    """x1, y1, x2, y2, the last pixel included."""
    fit: float
    """Intersection over union with the shape."""


def detect(pixels: NDArray[np.uint8]) -> list[Detection]:
    """Objects in RGB pixels of shape [height, width, 3], the best fit first."""
    palette = np.array([BACKGROUND, *(RGB[colour] for colour in COLOURS)], dtype=float)
    distances = np.linalg.norm(pixels[:, :, None, :].astype(float) - palette, axis=3)
    nearest = np.where(distances.min(axis=2) <= _MAX_DISTANCE, distances.argmin(axis=2), 0)
    detections = []
    for number, colour in enumerate(COLOURS, start=1):
        regions, _ = ndimage.label(nearest == number)
        for index, area in enumerate(ndimage.find_objects(regions), start=1):
            region = regions[area] == index
            if all(_MIN_SIDE <= side <= _MAX_SIDE for side in region.shape):
                shape, fit = _best_shape(region)
                if fit >= _MIN_FIT:
                    rows, columns = area
                    box = (columns.start, rows.start, columns.stop - 1, rows.stop - 1)
                    detections.append(Detection(shape, colour, box, fit))
    return sorted(detections, key=lambda detection: -detection.fit)


def as_geneval(detections: list[Detection]) -> Mapping[str, list[dict[str, object]]]:
    """Detections by class, as `metrics.geneval_correct` takes them: all certain, since each fits its shape."""
    by_class: dict[str, list[dict[str, object]]] = {}
    for detection in detections:
        by_class.setdefault(detection.shape, []).append({"box": [*detection.box], "color": detection.colour})
    return by_class


def _best_shape(region: NDArray[np.bool_]) -> tuple[str, float]:
    def fit(shape: Any) -> float:
        mask = _resized(shape_mask(shape), region.shape)
        return float((mask & region).sum() / (mask | region).sum())

    best = max(SHAPES, key=fit)
    return best, fit(best)


def _resized(mask: NDArray[np.bool_], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """The mask scaled to another size by its nearest pixels."""
    rows, columns = (
        ((np.arange(target) + 0.5) * source / target).astype(int)
        for target, source in zip(shape, mask.shape, strict=True)
    )
    return mask[rows][:, columns]
