"""Statistics of generated images that the reward-hacking alarm watches (`training.response_statistics`).

A better image does not need to be more saturated, noisier or busier: a policy that paints words over the picture, or
turns it to glaring noise, moves one of these while its reward rises.
"""

import io
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rubricworks.rubrics import Response
from rubricworks.training.policy.response_statistics import Statistic, of_no_single_response

_SIDE = 256
"""Images are scaled down to this side, so that a statistic costs no more than the reward."""
_SHIFT, _COLLAPSE = 0.33, 0.38
"""Weights by which odds that change 2.2 times, or a diversity that halves, reach the alarm's limit by themselves. They
were not measured: simulated policies write texts.
"""
_GROUP_SIDE = 32
"""Side at which the images of a group are compared."""


def saturation(pixels: NDArray[np.float64]) -> float:
    """Mean saturation (HSV) of RGB pixels in [0, 1], in [0, 1]."""
    highest, lowest = pixels.max(axis=2), pixels.min(axis=2)
    return float(np.divide(highest - lowest, highest, out=np.zeros_like(highest), where=highest > 0).mean())


def high_frequency(pixels: NDArray[np.float64]) -> float:
    """Share of the brightness's energy, without its mean, above half of the highest frequency, in [0, 1]."""
    grey = pixels.mean(axis=2)
    energy = np.abs(np.fft.fft2(grey - grey.mean())) ** 2
    vertical, horizontal = (np.abs(np.fft.fftfreq(size)) for size in grey.shape)
    high = np.maximum(vertical[:, None], horizontal[None, :]) > 0.25
    total = energy.sum()
    return float(energy[high].sum() / total) if total > 0 else 0.0


def drawn_share(pixels: NDArray[np.float64]) -> float:
    """Share of pixels that differ from the most frequent colour: how full the image is, in [0, 1]."""
    coarse = (pixels * 15).round().astype(np.int64) @ np.array([256, 16, 1])
    return float(1 - np.bincount(coarse.ravel()).max() / coarse.size)


@lru_cache(maxsize=64)
def _pixels(image: bytes) -> NDArray[np.float64]:
    with Image.open(io.BytesIO(image)) as picture:
        rgb = picture.convert("RGB")
        rgb.thumbnail((_SIDE, _SIDE))
        return np.asarray(rgb, dtype=float) / 255


def _of(response: Response, name: str) -> NDArray[np.float64]:
    return _pixels(_image_of(response, name))


def _image_of(response: Response, name: str) -> bytes:
    if response.image is None:
        raise ValueError(f"the statistic {name!r} is of images, and the response has no pixels")
    return response.image


def _of_pixels(measure: Callable[[NDArray[np.float64]], float], name: str) -> Callable[[Response, int], float]:
    """Measure of a response; NaN for an image that no decoder reads."""

    def value(response: Response, _: int) -> float:
        try:
            return measure(_of(response, name))
        except OSError:
            return math.nan

    return value


SATURATION = Statistic("saturation", "saturation", _of_pixels(saturation, "saturation"), "shift", _SHIFT)
HIGH_FREQUENCY = Statistic(
    "high_frequency", "energy in high frequencies", _of_pixels(high_frequency, "high_frequency"), "shift", _SHIFT
)
DRAWN = Statistic("drawn", "share of pixels drawn on", _of_pixels(drawn_share, "drawn"), "shift", _SHIFT)
IMAGE_STATISTICS = (SATURATION, HIGH_FREQUENCY, DRAWN)


def diversity(images: Sequence[NDArray[np.float64]]) -> float:
    """Mean distance between two images of one size, root mean square over pixels in [0, 1]; 0 for fewer than two."""
    rows_ND = np.stack([image.ravel() for image in images])
    if len(rows_ND) < 2:
        return 0.0
    distances = [float(np.sqrt(np.mean((a - b) ** 2))) for at, a in enumerate(rows_ND) for b in rows_ND[at + 1 :]]
    return fmean(distances)


def group_diversity(responses: Sequence[Response]) -> float:
    """Diversity of the readable images of one prompt, scaled down to squares; NaN without two of them."""
    images = []
    for response in responses:
        try:
            images.append(_square(_image_of(response, "diversity")))
        except OSError:
            continue
    return diversity(images) if len(images) > 1 else math.nan


def _diversity_of_step(groups: Sequence[Sequence[Response]]) -> float:
    values = [value for group in groups if not math.isnan(value := group_diversity(group))]
    return fmean(values) if values else math.nan


DIVERSITY = Statistic(
    "diversity", "distance between images of a prompt", of_no_single_response, "fall", _COLLAPSE, _diversity_of_step
)
"""A policy that draws one image for a prompt, whatever the seed, has found what its judge likes best."""


@lru_cache(maxsize=64)
def _square(image: bytes) -> NDArray[np.float64]:
    with Image.open(io.BytesIO(image)) as picture:
        return np.asarray(picture.convert("RGB").resize((_GROUP_SIDE, _GROUP_SIDE)), dtype=float) / 255


def text_statistic(covered: Callable[[Response], float | None]) -> Statistic:
    """Share of the pixels that text covers, as a reader found it when the image was graded; NaN if it did not.

    Args:
        covered: share of an image, `grading.text_reading.TextReader.covered`.
    """

    def share(response: Response, _: int) -> float:
        value = covered(response)
        return math.nan if value is None else value

    return Statistic("text", "share of pixels that text covers", share, "rise")
