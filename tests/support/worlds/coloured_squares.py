"""A world of twelve pictures, and a student small enough to learn it in seconds."""

from io import BytesIO

from PIL import Image, ImageDraw

from rubricworks.training.config import TinyConfig

PROMPT = "describe the image ."
COLOURS = {"red": (200, 30, 30), "green": (30, 160, 60), "blue": (30, 60, 200)}
PLACES = {"top-left": (0, 0), "top-right": (16, 0), "bottom-left": (0, 16), "bottom-right": (16, 16)}
SMALL = TinyConfig(
    hidden=32, layers=1, heads=2, intermediate=64, vision_hidden=16, vision_heads=2, patch=8, merge=2, image_side=32
)


def square(place: str, colour: str) -> bytes:
    image = Image.new("RGB", (32, 32), (240, 235, 225))
    x, y = PLACES[place]
    ImageDraw.Draw(image).rectangle([x + 2, y + 2, x + 13, y + 13], fill=COLOURS[colour])
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def squares() -> list[tuple[bytes, str, str]]:
    return [(square(p, c), PROMPT, f"at {p} a {c} square .") for p in PLACES for c in COLOURS]


def policy_rows() -> list[dict]:
    return [
        {"sample_id": f"s{index}", "image": image, "prompt": prompt, "rubric": caption}
        for index, (image, prompt, caption) in enumerate(squares())
    ]
