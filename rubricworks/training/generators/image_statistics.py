"""Statistics of generated images that the reward-hacking alarm watches (`training.response_statistics`).

A better image does not need to be more saturated, noisier or busier: a policy that paints words over the picture, or
turns it to glaring noise, moves one of these while its reward rises.
"""

import io
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rubricworks.rubrics import Response
from rubricworks.training.response_statistics import Statistic

_SIDE = 256
"""Images are scaled down to this side, so that a statistic costs no more than the reward."""


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


def _measure(response: Response, name: str, of_pixels: Callable[[NDArray[np.float64]], float]) -> float:
    """Statistic of an image; NaN for one without bytes, of which a decoder made no pixels."""
    if response.image is None:
        raise ValueError(f"the statistic {name!r} is of images, and the response has no pixels")
    return of_pixels(_pixels(response.image)) if response.image else math.nan


SATURATION = Statistic(
    "saturation", "saturation", lambda response, _: _measure(response, "saturation", saturation), "rise"
)
HIGH_FREQUENCY = Statistic(
    "high_frequency", "energy in high frequencies",
    lambda response, _: _measure(response, "high_frequency", high_frequency), "rise",
)  # fmt: skip
DRAWN = Statistic(
    "drawn", "share of pixels drawn on", lambda response, _: _measure(response, "drawn", drawn_share), "factor"
)
IMAGE_STATISTICS = (SATURATION, HIGH_FREQUENCY, DRAWN)


def text_statistic(covered: Callable[[Response], float | None]) -> Statistic:
    """Share of the pixels that text covers, as a reader found it when the image was graded; NaN if it did not.

    Args:
        covered: share of an image, `grading.text_reading.TextReader.covered`.
    """

    def share(response: Response, _: int) -> float:
        value = covered(response)
        return math.nan if value is None else value

    return Statistic("text", "share of pixels that text covers", share, "rise")
