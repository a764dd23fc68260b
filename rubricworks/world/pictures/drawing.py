"""Drawing of pictures: 36x36 pixels, a 3x3 grid of cells, at most one flat shape per cell, no antialiasing.

The pixels of a drawing are exactly the background and the shapes' colours, so that a codebook of patches can hold them
without loss. Each shape fills the inner 10x10 pixels of its 12x12 cell.
"""

import io
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Shape = Literal["circle", "square", "triangle", "cross"]
Colour = Literal["red", "green", "blue", "yellow", "purple", "black"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
COLOURS: tuple[Colour, ...] = get_args(Colour)

GRID = 3
CELL_SIDE = 12
SIDE = GRID * CELL_SIDE
SHAPE_SIDE = 10
BACKGROUND = (236, 236, 228)
RGB: dict[Colour, tuple[int, int, int]] = {
    "red": (220, 30, 30),
    "green": (20, 150, 50),
    "blue": (30, 80, 230),
    "yellow": (245, 205, 0),
    "purple": (160, 40, 190),
    "black": (20, 20, 20),
}


class Thing(NamedTuple):
    """A shape in a cell."""

    shape: Shape
    colour: Colour
    row: int
    """0 to 2, from the top."""
    column: int
    """0 to 2, from the left."""


@lru_cache
def shape_mask(shape: Shape) -> NDArray[np.bool_]:
    """Pixels of a shape in its square, [10, 10]."""
    y, x = np.mgrid[0:SHAPE_SIDE, 0:SHAPE_SIDE] - (SHAPE_SIDE - 1) / 2
    half = SHAPE_SIDE / 2
    masks = {
        "circle": x**2 + y**2 <= half**2,
        "square": np.ones_like(x, dtype=bool),
        "triangle": np.abs(x) <= (y + half) / 2,
        "cross": (np.abs(x) <= 1.5) | (np.abs(y) <= 1.5),
    }
    return masks[shape]


def draw(things: Iterable[Thing]) -> NDArray[np.uint8]:
    """RGB pixels of a picture, [36, 36, 3]."""
    pixels = np.empty((SIDE, SIDE, 3), dtype=np.uint8)
    pixels[:] = BACKGROUND
    margin = (CELL_SIDE - SHAPE_SIDE) // 2
    for thing in things:
        top, left = thing.row * CELL_SIDE + margin, thing.column * CELL_SIDE + margin
        pixels[top : top + SHAPE_SIDE, left : left + SHAPE_SIDE][shape_mask(thing.shape)] = RGB[thing.colour]
    return pixels


def read_pixels(image: bytes) -> NDArray[np.uint8]:
    """RGB pixels of an encoded image, [height, width, 3].

    Raises:
        OSError: no decoder reads it.
    """
    with Image.open(io.BytesIO(image)) as picture:
        return np.asarray(picture.convert("RGB"))


def colour_of(image: bytes) -> str:
    """Name of the colour that an encoded image has most of.

    Raises:
        OSError: no decoder reads it.
    """
    pixels = read_pixels(image).reshape(-1, 3).astype(int)
    distances = np.abs(pixels[:, None] - np.array(list(RGB.values()))).sum(axis=2)
    return COLOURS[int(np.bincount(distances.argmin(axis=1), minlength=len(COLOURS)).argmax())]
