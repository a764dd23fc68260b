import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from coloured_squares import SMALL, squares

from rubricworks.training.tiny.student import build_student


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def student(tmp_path_factory):
    """An untrained student that can say what the squares need."""
    texts = [text for _, prompt, caption in squares() for text in (prompt, caption)]
    images = [image for image, _, _ in squares()]
    return build_student(texts, tmp_path_factory.mktemp("student"), config=SMALL, images=images, seed=1)
