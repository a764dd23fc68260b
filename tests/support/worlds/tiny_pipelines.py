"""FLUX and Qwen-Image pipelines with random weights, as small as a rehearsal builds them."""

from pathlib import Path

import torch

from rubricworks.rehearsal.generator_miniatures import save_image_generator


def save_flux(folder: Path) -> Path:
    return _save("FluxPipeline", folder)


def save_qwen_image(folder: Path) -> Path:
    return _save("QwenImagePipeline", folder)


def _save(pipeline: str, folder: Path) -> Path:
    torch.manual_seed(0)
    save_image_generator({"pipeline": pipeline}, folder)
    return folder
