"""Pictures of one circle, and a generator small enough to learn them in seconds."""

import numpy as np

from rubricworks.training.generators.config import TinyArConfig
from rubricworks.world.pictures.drawing import draw
from rubricworks.world.pictures.prompts import Subject, Wish, picture_of
from rubricworks.world.scene.scene import rng_of

TINY = TinyArConfig(
    hidden=32, layers=1, heads=2, intermediate=64, patch=12, steps=60, batch_size=16, learning_rate=1e-2,
    max_prompt_tokens=8, save_every=25,
)  # fmt: skip
COLOURS = ("red", "blue")


def captioned_pictures(count: int) -> tuple[list[str], np.ndarray]:
    """Pictures of one circle, red or blue."""
    wishes = [Wish("colors", Subject("circle", COLOURS[at % 2])) for at in range(count)]
    pictures = [draw(picture_of(wish, rng_of(at))) for at, wish in enumerate(wishes)]
    return [wish.words for wish in wishes], np.stack(pictures)
