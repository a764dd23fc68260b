"""A folder of pictures that grows, and the stage that makes samples of it."""

import json
from io import BytesIO
from pathlib import Path

from PIL import Image

from rubricworks.runtime.launch import launch


def draw(folder: Path, numbers: range) -> None:
    """Different pictures, named by their number."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        content = BytesIO()
        Image.new("RGB", (12, 12), (number % 250, number // 250, 90)).save(content, "PNG")
        (folder / f"{number:04}.png").write_bytes(content.getvalue())


def prepare(run: Path, images: Path, **settings) -> str:
    config = {"source": str(images), "held_out": 4, **settings}
    return launch("prepare", json.dumps(config), str(run), {})
