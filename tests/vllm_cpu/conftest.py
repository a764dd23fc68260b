"""The laptop's students, taught, for the tests against vLLM itself."""

import importlib.util

import pytest
import torch
from coloured_squares import SMALL, squares
from training_configs import sft_config

from rubricworks.training.config import TinyLlavaConfig
from rubricworks.training.llava.assembly import build_tiny_llava
from rubricworks.training.sft import train_sft
from rubricworks.training.tiny.student import build_student

if importlib.util.find_spec("vllm") is None or importlib.util.find_spec("httpx") is None:
    collect_ignore_glob = ["test_*.py"]  # `make test-vllm` has an environment of its own

SHAPE = SMALL.model_copy(update={"hidden": 64})
"""Heads of 32 channels, the narrowest that vLLM's attention has on a CPU."""


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def taught(tmp_path_factory):
    """A student that describes the squares, not always rightly: its captions differ from image to image."""
    folder = tmp_path_factory.mktemp("taught")
    texts = [text for _, prompt, caption in squares() for text in (prompt, caption)]
    images = [image for image, _, _ in squares()]
    student = build_student(texts, folder / "student", config=SHAPE, images=images, seed=1)
    return train_sft(student, squares(), folder / "sft", sft_config(steps=60, batch_size=12, learning_rate=1e-2))


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory):
    """A LLaVA as VLM pretraining writes it, both towers from nothing, that describes the squares."""
    folder = tmp_path_factory.mktemp("pretrained")
    texts = [text for _, prompt, caption in squares() for text in (prompt, caption)]
    images = [image for image, _, _ in squares()]
    shape = TinyLlavaConfig(
        hidden=64, layers=1, heads=2, intermediate=128, vision_hidden=64, vision_heads=2, patch=8, image_side=32
    )
    student = build_tiny_llava(texts, folder / "student", config=shape, images=images, seed=1)
    return train_sft(student, squares(), folder / "sft", sft_config(steps=150, batch_size=12, learning_rate=5e-3))
