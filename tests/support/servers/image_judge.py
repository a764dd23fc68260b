"""Images as responses, and a judge that looks at their pixels."""

import base64
import io
import json
import random
from typing import Any

from PIL import Image
from scripted_server import Said, say

from rubricworks.rubrics import Criterion, Rubric

COLOURS = {"red": (200, 0, 0), "green": (0, 200, 0), "blue": (0, 0, 200)}
COLOUR_RUBRIC = Rubric(
    criteria=tuple(
        Criterion(criterion=name, key="colour", evaluation_rule=f"Passes if the image is {name}.", weight=weight)
        for name, weight in zip(COLOURS, (3, 2, 1), strict=True)
    )
)


def plain_image(colour: str, *, size: int = 8, format: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (size, size), COLOURS[colour]).save(buffer, format)
    return buffer.getvalue()


def noisy_image(colour: str, seed: int, *, side: int = 91) -> bytes:
    """A picture of one colour with noise of its own, some 20 kB as PNG."""
    noise = random.Random(seed).randbytes(3 * side * side)
    mixed = bytes(base + value // 5 for base, value in zip(COLOURS[colour] * side * side, noise, strict=True))
    buffer = io.BytesIO()
    Image.frombytes("RGB", (side, side), mixed).save(buffer, "PNG")
    return buffer.getvalue()


def images_in(body: dict[str, Any]) -> list[bytes]:
    """Images of a request's user message, decoded from their data URLs."""
    urls = [part["image_url"]["url"] for part in body["messages"][1]["content"] if part["type"] == "image_url"]
    return [base64.b64decode(url.partition(";base64,")[2]) for url in urls]


def criteria_in(body: dict[str, Any]) -> list[dict[str, Any]]:
    text = body["messages"][1]["content"][0]["text"]
    return json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0])


def main_colour(image: bytes) -> str:
    pixel = Image.open(io.BytesIO(image)).convert("RGB").resize((1, 1)).getpixel((0, 0))
    return max(COLOURS, key=lambda name: pixel[list(COLOURS).index(name)])


def colour_judge(_: int, body: dict[str, Any]) -> Said:
    """Meets a criterion when the last image of the request has the colour of its title."""
    colour = main_colour(images_in(body)[-1])
    verdicts = [
        {"id": criterion["id"], "reasoning": f"it is {colour}", "score": int(criterion["criterion"] == colour)}
        for criterion in criteria_in(body)
    ]
    return say(json.dumps({"verdicts": verdicts}))
