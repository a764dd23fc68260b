"""Responses of a model in training to samples, several each: what filters and labels are made of."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from rubricworks.data.tables import Sample
from rubricworks.runtime.job import model_dir

Draw = Callable[[list[Sample]], list[list[str]]]
"""So many responses to each sample; the same whenever it is asked for the same samples."""


def drawer(model: Path, *, each: int, temperature: float, max_new_tokens: int, batch_size: int, seed: int) -> Draw:
    """Draws from the model that a stage left.

    Args:
        each: responses to one sample.
        batch_size: responses that are generated at once.
    """
    from rubricworks.training.generate import generate_captions, load_model

    loaded = load_model(model_dir(model))

    def draw(samples: list[Sample]) -> list[list[str]]:
        asked = [sample for sample in samples for _ in range(each)]
        drawn = generate_captions(
            *loaded,
            [sample.image for sample in asked],
            [sample.prompt for sample in asked],
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            batch_size=batch_size,
            seed=_seed_of(seed, samples[0].sample_id),
        )
        texts = [text for text, _ in drawn]
        return [texts[start : start + each] for start in range(0, len(texts), each)]

    return draw


def _seed_of(seed: int, sample_id: str) -> int:
    """A batch's own, so that no two batches draw with the same noise."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{sample_id}".encode()).digest()[:4], "big")
