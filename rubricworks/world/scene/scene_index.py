"""Lookup of the scene that an image shows, by a digest of its pixels.

A client may send the file as it is or re-encoded without loss; the pixels stay the same, the bytes do not.
"""

import hashlib
import io
import json
from functools import lru_cache
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from rubricworks.errors import UserError
from rubricworks.world.scene.render import SIDE
from rubricworks.world.scene.scene import Scene

SCENES_FILE = "scenes.jsonl"
PICTURES = "pictures"
"""Folder of a world's pictures; it may have them alone."""


class UnknownImage(LookupError):
    """The bytes are not an image, or an image of another world."""


def pixel_digest(image: bytes) -> str:
    """SHA-256 of an image's size and RGB pixels."""
    try:
        with Image.open(io.BytesIO(image)) as picture:
            if picture.size != (SIDE, SIDE):
                raise UnknownImage(f"scenes are {SIDE}x{SIDE} pixels, this image is {picture.width}x{picture.height}")
            pixels = picture.convert("RGB").tobytes()
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError, SyntaxError, ValueError) as error:
        raise UnknownImage("the image part is not a readable PNG or JPEG file") from error
    return hashlib.sha256(f"{SIDE}x{SIDE}:".encode() + pixels).hexdigest()


class SceneIndex:
    """The scenes of one exported folder, looked up by image."""

    def __init__(self, scenes: dict[str, Scene]) -> None:
        self._scenes = scenes
        self._digest_of = lru_cache(maxsize=8_192)(pixel_digest)

    def __len__(self) -> int:
        return len(self._scenes)

    def find(self, image: bytes) -> tuple[str, Scene]:
        """(digest, scene) of an image.

        Raises:
            UnknownImage: no scene of this index has these pixels.
        """
        digest = self._digest_of(image)
        try:
            return digest, self._scenes[digest]
        except KeyError:
            raise UnknownImage("this image is not one of the scenes that were exported with this world") from None


def read_scene_index(folder: Path) -> SceneIndex:
    """The index of a folder that `export_scenes` wrote."""
    path = folder / SCENES_FILE
    if not path.is_file():
        if (folder / PICTURES).is_dir():
            return SceneIndex({})
        if (folder / "world" / SCENES_FILE).is_file():
            raise UserError(f"{folder} is a run's folder; its scenes are in {folder / 'world'}")
        raise UserError(f"{folder}: no {SCENES_FILE}; make scenes with `rubricworks world export {folder}`")
    scenes: dict[str, Scene] = {}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
                scenes[row["digest"]] = Scene.model_validate(row["scene"])
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(f"{path}: line {number} is not a scene; export the folder again") from error
    if not scenes:
        raise UserError(f"{path}: holds no scenes; export the folder again")
    return SceneIndex(scenes)
