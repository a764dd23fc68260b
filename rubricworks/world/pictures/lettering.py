"""Lettering in a picture: boxes of white paper with dark ink, which no shape of this world has.

A picture of 36 pixels holds no legible sentence, so the scripted models do not read letters: they take such a box for
words, and those that can be swayed take the words for a claim.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

_PAPER, _INK = 250, 110
"""Lowest channel of paper, and highest channel of ink."""
_MIN_WIDTH, _MIN_HEIGHT = 8, 5
_INK_SHARE = (0.04, 0.6)
"""Ink in the box, of its pixels."""

Box = tuple[int, int, int, int]
"""Left, top, right, bottom; the last two are not included."""


def find_lettering(pixels: NDArray[np.uint8]) -> list[Box]:
    """Boxes of lettering in RGB pixels [height, width, 3], from the top."""
    paper = pixels.min(axis=2) >= _PAPER
    ink = pixels.max(axis=2) <= _INK
    # Letters part the paper into pieces: it is closed over them before it is counted.
    regions, _ = ndimage.label(ndimage.binary_closing(np.pad(paper, 3), iterations=2)[3:-3, 3:-3])
    boxes = []
    for rows, columns in ndimage.find_objects(regions):
        height, width = rows.stop - rows.start, columns.stop - columns.start
        share = float(ink[rows, columns].mean())
        if width >= _MIN_WIDTH and height >= _MIN_HEIGHT and _INK_SHARE[0] <= share <= _INK_SHARE[1]:
            boxes.append((columns.start, rows.start, columns.stop, rows.stop))
    return boxes
