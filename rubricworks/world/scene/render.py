"""Scene rendering: 96x96 pixels, one 32-pixel cell per grid place, on a constant pale background.

A vision tower with 16-pixel patches merged two by two gets exactly one token per cell, which lets a very small student
learn. Shapes are drawn four times larger and scaled down, so that edges are smooth.
"""

import io
import math

from PIL import Image, ImageDraw, ImageFont

from rubricworks.world.scene.scene import WORD_CELL, Cell, Colour, Scene, Shape, Size, grid_position

SIDE = 96
CELL_SIDE = SIDE // 3
OVERSAMPLING = 4
BACKGROUND = (236, 236, 228)
INK = (60, 60, 60)
RGB: dict[Colour, tuple[int, int, int]] = {
    "red": (220, 30, 30),
    "green": (20, 150, 50),
    "blue": (30, 80, 230),
    "yellow": (245, 205, 0),
    "purple": (160, 40, 190),
    "black": (20, 20, 20),
}
RADIUS: dict[Size, int] = {"big": 14, "small": 7}


def draw_scene(scene: Scene) -> Image.Image:
    """The scene as an RGB image."""
    canvas = Image.new("RGB", (SIDE * OVERSAMPLING, SIDE * OVERSAMPLING), BACKGROUND)
    pen = ImageDraw.Draw(canvas)
    for item in scene.objects:
        x, y = _center(item.cell)
        _draw_shape(
            pen, item.shape, x * OVERSAMPLING, y * OVERSAMPLING, RADIUS[item.size] * OVERSAMPLING, RGB[item.colour]
        )
    image = canvas.resize((SIDE, SIDE), Image.Resampling.BOX)
    if scene.word:
        # Pillow's built-in bitmap font: the same pixels on every machine, whatever fonts it has.
        x, y = _center(WORD_CELL)
        font = ImageFont.load_default_imagefont()
        _, _, width, height = font.getbbox(scene.word)
        ImageDraw.Draw(image).text((x - width // 2, y - height // 2), scene.word, fill=INK, font=font)
    return image


def render_png(scene: Scene) -> bytes:
    """The scene as a PNG file."""
    buffer = io.BytesIO()
    draw_scene(scene).save(buffer, "PNG")
    return buffer.getvalue()


def _center(cell: Cell) -> tuple[int, int]:
    row, column = grid_position(cell)
    return column * CELL_SIDE + CELL_SIDE // 2, row * CELL_SIDE + CELL_SIDE // 2


def _draw_shape(
    pen: ImageDraw.ImageDraw, shape: Shape, x: int, y: int, radius: int, fill: tuple[int, int, int]
) -> None:
    if shape == "circle":
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill)
    elif shape == "square":
        half = round(radius * 0.86)
        pen.rectangle((x - half, y - half, x + half, y + half), fill=fill)
    elif shape == "triangle":
        pen.polygon([(x, y - radius), (x + radius, y + radius), (x - radius, y + radius)], fill=fill)
    else:
        corners = []
        for corner in range(10):
            reach = radius * 1.1 if corner % 2 == 0 else radius * 0.45
            angle = math.pi * corner / 5 - math.pi / 2
            corners.append((x + reach * math.cos(angle), y + reach * math.sin(angle)))
        pen.polygon(corners, fill=fill)
