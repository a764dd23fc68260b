"""Loading of image generators, autoregressive and flow-matching, from their folders.

A folder with `model_index.json` is a diffusers pipeline; one with `config.json`, a generator of this project or a model
with image codes in its vocabulary.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from rubricworks.errors import UserError
from rubricworks.training.generators.config import ImageSampling
from rubricworks.training.generators.files import INDEX_FILE
from rubricworks.training.generators.flow_matching.generator import FlowGenerator
from rubricworks.training.generators.image_tokenizer import Pixels
from rubricworks.training.generators.peers import SupervisedPeer


class ImageGenerator(Protocol):
    """Generator of either kind."""

    def generate(
        self, prompts: Sequence[str], *, temperature: float = 1.0, guidance: float = 1.0, seed: int = 0,
        batch_size: int = 64,
    ) -> list[Pixels | None]:  # fmt: skip
        """Generate one image per prompt, RGB [height, width, 3] each."""
        ...


def is_flow_generator(folder: Path) -> bool:
    """Return True if the folder holds a flow-matching generator."""
    from rubricworks.training.generators.flow_matching.pixel_flow import is_pixel_flow

    return (folder / INDEX_FILE).is_file() or is_pixel_flow(folder)


def is_image_generator(folder: Path) -> bool:
    """Return True if the folder holds an image generator of either kind."""
    from rubricworks.training.generators.loading import is_code_generator

    return is_flow_generator(folder) or is_code_generator(folder)


def load_image_generator(
    folder: Path, sampling: ImageSampling | None = None, *, dtype: Literal["auto", "float32", "bfloat16"] = "auto"
) -> ImageGenerator:
    """Read a generator of either kind.

    Args:
        dtype: precision of its weights; "auto" for that of the saved ones.
    Raises:
        UserError: the folder holds none, or `sampling` asks for what it cannot do.
    """
    sampling = sampling or ImageSampling()
    if is_flow_generator(folder):
        return load_flow_generator(folder, sampling, dtype=dtype)
    _check_has_no_sampling(sampling, "evaluation.sampling")
    from rubricworks.training.generators.loading import load_generator

    return load_generator(folder, dtype=dtype)


def load_flow_generator(
    folder: Path, sampling: ImageSampling, *, dtype: Literal["auto", "float32", "bfloat16"] = "auto"
) -> FlowGenerator:
    """Read a flow-matching generator.

    Args:
        dtype: precision of a pipeline; "auto" for that of its saved transformer.
    Raises:
        UserError: the folder holds none, or one of another image size.
    """
    if (folder / INDEX_FILE).is_file():
        from rubricworks.training.generators.flow_matching.pipelines import load_pipeline

        return load_pipeline(folder, sampling, dtype=dtype)
    from rubricworks.training.generators.flow_matching.pixel_flow import PixelFlow, is_pixel_flow

    if not is_pixel_flow(folder):
        raise UserError(f"{folder} holds no flow-matching generator (no {INDEX_FILE} of diffusers)")
    return PixelFlow.load(folder, sampling)


def load_peer(
    folder: Path, guidance: float, sampling: ImageSampling, *, dtype: Literal["float32", "bfloat16"]
) -> SupervisedPeer:
    """Read a generator.

    Args:
        guidance: of the images that it draws; 1 is none.
        dtype: precision of its weights.
    Raises:
        UserError: the folder holds none, or `sampling` asks for what it cannot do.
    """
    if is_flow_generator(folder):
        from rubricworks.training.generators.flow_matching.supervised import FlowPeer

        return FlowPeer(load_flow_generator(folder, sampling, dtype=dtype), guidance)
    _check_has_no_sampling(sampling, "policy.algorithm.sampling")
    from rubricworks.training.generators.loading import load_generator
    from rubricworks.training.generators.supervised import CodePeer

    return CodePeer(load_generator(folder, dtype=dtype), guidance)


def _check_has_no_sampling(sampling: ImageSampling, field: str) -> None:
    if sampling != ImageSampling():
        raise UserError(f"{field} is for flow-matching generators; leave it out for an autoregressive one")
