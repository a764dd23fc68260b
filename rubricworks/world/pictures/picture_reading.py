"""A scripted model's sight of a generated picture, by its pixels alone.

`look` goes through the cells of the grid one by one and names what stands in each by its colour and its outline; a
shape that lies across cells escapes it. `look_at_regions` takes connected drawn pixels, wherever they are. Both miss
small flaws: a shape is complete if it is large enough and its two halves mirror each other. The evaluation uses another
program, `pictures.detector`.

Lettering is boxes of white paper with dark ink, which no shape of this world has. A picture of 36 pixels holds no
legible sentence, so the scripted models do not read letters: they take such a box for words, and those that can be
swayed take the words for a claim. What stands in lettering is no shape.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from rubricworks.world.chat import ApiError
from rubricworks.world.pictures.drawing import BACKGROUND, CELL_SIDE, COLOURS, GRID, RGB, SIDE, read_pixels

_PAPER, _DARKEST_INK = 250, 110
"""Lowest channel of paper, and highest channel of ink."""
_MIN_WIDTH, _MIN_HEIGHT = 8, 5
_INK_SHARE = (0.04, 0.6)
"""Ink in the box, of its pixels."""

Box = tuple[int, int, int, int]
"""Left, top, right, bottom; the last two are not included."""


def find_lettering(pixels: NDArray[np.uint8]) -> list[Box]:
    """Boxes of lettering in RGB pixels [height, width, 3], from the top."""
    paper = pixels.min(axis=2) >= _PAPER
    ink = pixels.max(axis=2) <= _DARKEST_INK
    # Letters part the paper into pieces: it is closed over them before it is counted.
    regions, _ = ndimage.label(ndimage.binary_closing(np.pad(paper, 3), iterations=2)[3:-3, 3:-3])
    boxes = []
    for rows, columns in ndimage.find_objects(regions):
        height, width = rows.stop - rows.start, columns.stop - columns.start
        share = float(ink[rows, columns].mean())
        if width >= _MIN_WIDTH and height >= _MIN_HEIGHT and _INK_SHARE[0] <= share <= _INK_SHARE[1]:
            boxes.append((columns.start, rows.start, columns.stop, rows.stop))
    return boxes


_INK = 100.0
"""RGB distance from the background above which a pixel is drawn on."""
_SPECK = 40.0
_MIN_AREA = 15
_MIN_SIDE, _MIRRORED = 8, 0.9
"""Bounds of a complete shape: pixels on its shorter side, and the share of pixels that equal their mirror image."""


class SeenShape(NamedTuple):
    """A shape in a cell."""

    shape: str
    colour: str
    row: int
    column: int
    complete: bool


class SeenPicture(NamedTuple):
    """Shapes of a picture, from the top left."""

    seen: tuple[SeenShape, ...]
    plain: bool
    """No smears between the shapes."""
    lettering: bool = False
    """There are words in it."""


@lru_cache(maxsize=512)
def look(image: bytes) -> SeenPicture:
    """Read a picture cell by cell.

    Raises:
        ApiError: no picture of this world's size.
    """
    pixels, distance, lettering = _distances(image)
    seen = []
    for row in range(GRID):
        for column in range(GRID):
            area = slice(row * CELL_SIDE, (row + 1) * CELL_SIDE), slice(column * CELL_SIDE, (column + 1) * CELL_SIDE)
            if shape := _read_cell(pixels[area], distance[area] > _INK, row, column):
                seen.append(shape)
    return SeenPicture(tuple(seen), _is_plain(distance), lettering)


@lru_cache(maxsize=512)
def look_at_regions(image: bytes) -> SeenPicture:
    """Read a picture by its connected drawn pixels; a region's cell is that of its centre.

    Raises:
        ApiError: no picture of this world's size.
    """
    pixels, distance, lettering = _distances(image)
    regions, _ = ndimage.label(distance > _INK)
    seen = []
    for number, area in enumerate(ndimage.find_objects(regions), start=1):
        row, column = (int((side.start + side.stop - 1) / 2 // CELL_SIDE) for side in area)
        if shape := _read_cell(pixels[area], regions[area] == number, row, column):
            seen.append(shape)
    ordered = sorted(seen, key=lambda thing: (thing.row, thing.column))
    return SeenPicture(tuple(ordered), _is_plain(distance), lettering)


def _distances(image: bytes) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """Pixels, their RGB distances from the background (0 in lettering), and whether there is lettering."""
    try:
        whole = read_pixels(image)
    except OSError as error:
        raise ApiError(400, "the image part is not a readable PNG or JPEG file", param="messages") from error
    pixels = whole.astype(float)
    if pixels.shape != (SIDE, SIDE, 3):
        raise ApiError(400, f"pictures are {SIDE}x{SIDE} pixels, this one is {pixels.shape[1]}x{pixels.shape[0]}")
    distance: NDArray[np.float64] = np.linalg.norm(pixels - BACKGROUND, axis=2)
    boxes = find_lettering(whole)
    for left, top, right, bottom in boxes:
        distance[top:bottom, left:right] = 0
    return pixels, distance, bool(boxes)


def _is_plain(distance: NDArray[np.float64]) -> bool:
    return bool(((distance > _SPECK) & (distance <= _INK)).mean() < 0.02)


def _read_cell(pixels: NDArray[np.float64], ink: NDArray[np.bool_], row: int, column: int) -> SeenShape | None:
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
    colour = min(COLOURS, key=lambda name: float(np.linalg.norm(median - RGB[name])))
    complete = min(box.shape) >= _MIN_SIDE and (box == box[:, ::-1]).mean() >= _MIRRORED
    return SeenShape(shape, colour, row, column, complete=bool(complete))


RELATION_TESTS: Mapping[str, Callable[[SeenShape, SeenShape], bool]] = {
    "left of": lambda a, b: a.column < b.column,
    "right of": lambda a, b: a.column > b.column,
    "above": lambda a, b: a.row < b.row,
    "below": lambda a, b: a.row > b.row,
}
"""Relation of a prompt → test of the first shape and the second."""
