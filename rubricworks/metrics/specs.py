"""SPECS: similarity of image and caption in a CLIP model that is trained for specificity (mbzuai-nlp/SPECS)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

_EPS = 1e-8
"""Smallest norm that a vector is divided by, as in torch's cosine_similarity."""


def specs_score(image: ArrayLike, texts: Sequence[ArrayLike]) -> list[float]:
    """SPECS of several texts with one image: (cosine + 1) / 2, at least 0.

    Args:
        image: embedding of the image by the SPECS model, shape [D].
        texts: embeddings of the texts, shape [N, D].
    Raises:
        ValueError: the embeddings differ in length, or a number in them is not finite.
    """
    image_D = np.asarray(image, np.float64)
    rows = [np.asarray(text, np.float64) for text in texts]
    for row in (image_D, *rows):
        if row.ndim != 1 or row.shape != image_D.shape or not np.isfinite(row).all():
            raise ValueError(
                f"an embedding has shape {list(row.shape)}, that of the image {list(image_D.shape)}; "
                "give finite vectors of one length"
            )
    return [max(0.0, (_cosine(image_D, row) + 1) / 2) for row in rows]


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    norms = [max(float(np.linalg.norm(vector)), _EPS) for vector in (a, b)]
    return float(np.clip(a @ b / (norms[0] * norms[1]), -1, 1))
