"""Sampled responses of a model, several per sample, for the offline filter and the GenRM's labels."""

import hashlib
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from rubricworks.data.tables import Sample
from rubricworks.runtime.job import model_dir
from rubricworks.training.config import EngineOptions

ResponseSampler = Callable[[list[Sample]], list[list[str]]]
"""Samples → several responses to each, or none; deterministic for the same samples."""

_GENERATE = EngineOptions()


class SampledResponses(NamedTuple):
    """A sample with the responses that were drawn to it."""

    sample: Sample
    responses: list[str]


def draw_ahead(load: Callable[[], ResponseSampler]) -> Callable[[list[Sample]], list[SampledResponses]]:
    """Load a sampler, for `ask_all` to draw the responses of a shard by."""
    draw = load()

    def drawn(samples: list[Sample]) -> list[SampledResponses]:
        return [SampledResponses(*pair) for pair in zip(samples, draw(samples), strict=True)]

    return drawn


def response_sampler(
    model: Path,
    *,
    each: int,
    temperature: float,
    max_new_tokens: int,
    batch_size: int,
    seed: int,
    max_prompt_tokens: int | None = None,
    engine: EngineOptions = _GENERATE,
) -> ResponseSampler:
    """Return a sampler of responses by the model in a stage's output.

    Args:
        each: responses per sample.
        batch_size: responses per generation batch.
        max_prompt_tokens: a sample whose prompt is longer, its image included, gets no response.
    """
    from rubricworks.training.engine import load_engine
    from rubricworks.training.generate import prompt_lengths

    write = load_engine(model_dir(model), engine, batch_size=batch_size)

    def draw(samples: list[Sample]) -> list[list[str]]:
        fitting = samples
        if max_prompt_tokens is not None:
            images, prompts = [sample.image for sample in samples], [sample.prompt for sample in samples]
            lengths = prompt_lengths(write.processor, images, prompts, batch_size=batch_size)
            fitting = [sample for sample, length in zip(samples, lengths, strict=True) if length <= max_prompt_tokens]
        repeated = [sample for sample in fitting for _ in range(each)]
        outputs = write(
            [sample.image for sample in repeated],
            [sample.prompt for sample in repeated],
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            seed=_batch_seed(seed, samples[0].sample_id),
        )
        texts = (text for text, _ in outputs)
        drawn = {sample.sample_id: list(islice(texts, each)) for sample in fitting}
        return [drawn.get(sample.sample_id, []) for sample in samples]

    return draw


def _batch_seed(seed: int, sample_id: str) -> int:
    """Derive a seed per batch, so that no two batches draw with the same noise."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{sample_id}".encode()).digest()[:4], "big")
