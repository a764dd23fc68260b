"""Weights in a model's folder that are not of its config: the rehearsal itself never loads them.

The usual case is a mixture of experts saved as Transformers keeps it in memory. Transformers loads it; vLLM does not.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from rubricworks.rehearsal.generator_miniatures import is_image_generator
from rubricworks.rehearsal.miniatures import untrained_model
from rubricworks.rehearsal.shapes import Shape
from rubricworks.training.hub_layout import hub_weights


def weight_problems(model: str, shape: Shape) -> Iterator[str]:
    """Yield a line if a folder's weights have other shapes than the Hub's files of such a model would have.

    Args:
        model: a folder; nothing is known of weights elsewhere.
        shape: content of its config.json.
    """
    files = sorted(Path(model).glob("*.safetensors")) if Path(model).is_dir() else []
    if not files or is_image_generator(shape):
        return
    expected = _expected_shapes(model, shape)
    wrong: list[str] = []
    for file in files:
        try:
            with safe_open(file, "pt") as weights:
                for name in weights.keys():  # noqa: SIM118 (it is no mapping)
                    saved = weights.get_slice(name).get_shape()
                    if name in expected and saved != expected[name]:
                        wrong.append(f"{name} is {saved} instead of {expected[name]}")
        except SafetensorError as error:
            yield f"{file} cannot be read: {error}"
    if wrong:
        yield f"{model}: {len(wrong):,} weights have not the shapes of its config, so vLLM refuses them; {wrong[0]}"


def _expected_shapes(model: str, shape: Shape) -> dict[str, list[int]]:
    """Shapes of weights by their names in the Hub's files."""
    with torch.device("meta"):
        built = untrained_model(model, shape)
    return {name: list(weight.shape) for name, weight in hub_weights(built, built.named_parameters())}
