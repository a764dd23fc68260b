"""Export of scenes as an image folder that any tool can read, with the ground truth beside it.

folder/images/scene-00000.png …     the pictures
folder/images/metadata.jsonl        {"file_name", "text"}: one noisy caption per image, for warming up a student
folder/scenes.jsonl                 {"file_name", "digest", "scene"}: the truth, read by the world's server only
"""

import json
from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.world.scene.captions import COMMENTARY, write_caption
from rubricworks.world.scene.faults import Faults, perceive
from rubricworks.world.scene.render import render_png
from rubricworks.world.scene.scene import Scene, generate_scenes, rng_of
from rubricworks.world.scene.scene_index import SCENES_FILE, pixel_digest

CAPTION_NOISE = Faults(
    stops_early=0.6,
    omits_big=0.05,
    omits_small=0.05,
    wrong_cell=0.04,
    wrong_size=0.04,
    wrong_colour=0.04,
    wrong_shape=0.04,
    invents=0.08,
    misses_word=0.25,
)
"""Faults of the captions in metadata.jsonl: good enough to warm up a student, with much left to learn from rewards."""


def noisy_caption(
    scene: Scene, seed: int, index: int, *, commentary: float = 0.0, repetition: float = 0.0, brevity: float = 0.0
) -> str:
    """The canonical caption exported with image number `index`.

    Args:
        commentary: probability of a sentence of commentary at the end.
        repetition: probability that one sentence is repeated.
        brevity: probability that it stops after the first half of its sentences.
    """
    caption = write_caption(perceive(scene, CAPTION_NOISE, rng_of("noisy caption", seed, index)), "canonical")
    if rng_of("brevity", seed, index).random() < brevity:
        sentences = caption.removesuffix(" .").split(" . ")
        caption = " . ".join(sentences[: max(1, len(sentences) // 2)]) + " ."
    rng = rng_of("repetition", seed, index)
    if rng.random() < repetition:
        caption += f" {rng.choice(caption.removesuffix(' .').split(' . '))} ."
    rng = rng_of("commentary", seed, index)
    return f"{caption} {rng.choice(COMMENTARY)}" if rng.random() < commentary else caption


def export_scenes(
    folder: Path | str,
    *,
    seed: int,
    count: int,
    commentary: float = 0.0,
    repetition: float = 0.0,
    brevity: float = 0.0,
) -> Path:
    """Write `count` different scenes and return the folder of images. The same call writes the same bytes.

    Args:
        commentary: the share of captions that end with a sentence of commentary.
        repetition: the share of captions that repeat one of their sentences.
        brevity: the share of captions that stop after the first half of their sentences.
    """
    shares = {"commentary": commentary, "repetition": repetition, "brevity": brevity}
    if count < 1:
        raise UserError(f"{count} scenes are asked for; export at least 1")
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise UserError(f"{name} is {share}; it is a share of the captions, from 0 to 1")
    images = Path(folder) / "images"
    try:
        images.mkdir(parents=True, exist_ok=True)
        for stale in images.glob("scene-*.png"):
            stale.unlink()
        with (
            (images / "metadata.jsonl").open("w", encoding="utf-8") as metadata,
            (Path(folder) / SCENES_FILE).open("w", encoding="utf-8") as truth,
        ):
            for index, scene in enumerate(generate_scenes(seed, count)):
                name, picture = f"scene-{index:05d}.png", render_png(scene)
                (images / name).write_bytes(picture)
                text = noisy_caption(scene, seed, index, **shares)
                metadata.write(json.dumps({"file_name": name, "text": text}) + "\n")
                row = {"file_name": name, "digest": pixel_digest(picture), "scene": scene.model_dump()}
                truth.write(json.dumps(row) + "\n")
    except OSError as error:
        raise UserError(
            f"{folder}: cannot write scenes ({error.strerror}); choose another folder or make room"
        ) from error
    return images
