"""A folder of photographs as people have them: every format, size and orientation, and one file that is none.

What a good model says of each is known beforehand: its colour, and whether it is tall or wide.
"""

import json
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = {
    "red": (190, 40, 40),
    "green": (40, 150, 60),
    "blue": (50, 70, 190),
    "yellow": (220, 200, 50),
    "purple": (130, 50, 150),
    "grey": (120, 120, 120),
    "white": (245, 245, 245),
}

TRUTH = {
    "barn.jpg": ("red", "wide"),
    "leaf.png": ("green", "wide"),
    "sea.jpg": ("blue", "tall"),
    "fog.jpg": ("grey", "wide"),
    "wheat.jpg": ("yellow", "wide"),
    "iris.png": ("purple", "tall"),
    "door.jpg": ("red", "tall"),
    "moss.jpg": ("green", "tall"),
    "sky.png": ("blue", "wide"),
    "snow.jpg": ("white", "wide"),
}
NOT_AN_IMAGE = "notes.jpg"


def take_photographs(folder: Path) -> Path:
    """Write the folder, with captions in `metadata.jsonl`."""
    folder.mkdir(parents=True)
    for number, (name, (colour, shape)) in enumerate(TRUTH.items()):
        image = _scene(colour, (160, 100) if shape == "wide" else (100, 160), number)
        if name == "barn.jpg":
            image = _scene(colour, (4000, 2600), number)
        if name == "fog.jpg":
            image = image.convert("L")
        if name == "leaf.png":  # a cut-out: what shows through is white, not the red that lies under it
            alpha = np.zeros((100, 160), np.uint8)
            alpha[10:-10, 10:-10] = 255
            image = Image.fromarray(np.where(alpha[..., None] > 0, np.asarray(image), np.uint8([255, 0, 0])))
            image.putalpha(Image.fromarray(alpha))
        content = BytesIO()
        if name == "sea.jpg":  # held sideways: the camera noted how to turn it
            exif = Image.Exif()
            exif[0x0112] = 6
            image.transpose(Image.Transpose.ROTATE_90).save(content, "JPEG", quality=90, exif=exif)
        else:
            image.save(content, "PNG" if name.endswith("png") else "JPEG", quality=90)
        (folder / name).write_bytes(content.getvalue())
    (folder / NOT_AN_IMAGE).write_text("a shopping list\n")
    lines = [{"file_name": name, "text": f"a {c} {s} photograph"} for name, (c, s) in TRUTH.items()]
    (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def take_forty(folder: Path) -> Path:
    """Write forty plain photographs, ten scenes tall and wide in four lights, with captions in `metadata.jsonl`."""
    folder.mkdir(parents=True)
    lines = []
    for number in range(40):
        colour = list(COLOURS)[number % 5]
        shape = ("wide", "tall")[number // 5 % 2]
        name = f"photo-{number:02}.jpg"
        _scene(colour, (160, 100) if shape == "wide" else (100, 160), number).save(folder / name, quality=90)
        lines.append({"file_name": name, "text": f"a {colour} {shape} photograph"})
    (folder / "metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def look_at(image: bytes) -> tuple[str, str]:
    """Colour and shape, seen in the pixels of an image."""
    picture = Image.open(BytesIO(image)).convert("RGB")
    width, height = picture.size
    middle = np.asarray(picture)[height // 4 : -height // 4, width // 4 : -width // 4].reshape(-1, 3).mean(axis=0)
    colour = min(COLOURS, key=lambda name: float(np.abs(middle - COLOURS[name]).sum()))
    return colour, "wide" if width > height else "tall"


def _scene(colour: str, size: tuple[int, int], seed: int) -> Image.Image:
    """A colour under uneven light, with the noise of a sensor."""
    width, height = size
    light = np.linspace(0.8, 1.2, width)[None, :, None] * np.linspace(1.05, 0.95, height)[:, None, None]
    pixels = np.array(COLOURS[colour]) * light + np.random.default_rng(seed).normal(0, 6, (height, width, 1))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
