"""Weights in the layout of the Hub's files, which vLLM reads; Transformers keeps some in another one in memory.

The conversion is Transformers' own, reversed: names, experts that are fused in memory, matrices that are transposed.
Transformers 5.23 does not reverse `Transpose(check_dims=True)` (the experts of Qwen3-VL-MoE, [E, 2I, H] in memory and
[E, H, 2I] on the Hub): it compares a weight with its shape in memory, so it saves the layout in memory, and takes files
whose two sides are equal for that layout too. Here such a weight is always transposed.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from peft import PeftModel
from torch import Tensor
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import (
    PrefixChange,
    Transpose,
    WeightConverter,
    WeightTransform,
    apply_converters,
    revert_weight_conversion,
)

from rubricworks.training.llava.weight_names import hub_name, is_llava_with_clip


@contextmanager
def saves_hub_layout(model: Any) -> Iterator[None]:
    """Inside, `save_pretrained` and `revert_weight_conversion` of the model give the Hub's layout."""
    loaded = getattr(model, "_weight_conversions", None)
    model._weight_conversions = _conversions(model)
    for conversion in model._weight_conversions:
        for transpose in _transposes_by_shape(conversion):
            transpose.check_dims = False
    try:
        yield
    finally:
        model._weight_conversions = loaded


def hub_weights(model: Any, weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """Convert weights one by one to the names and layouts of the Hub's files.

    Weights that a file holds as one wait until all of them have come.

    Args:
        model: the model that they belong to, or a `PeftModel` around it.
        weights: by their names in the model without adapters.
    """
    if isinstance(model, PeftModel):
        model = model.get_base_model()
    reversed_conversions = [conversion.reverse_transform() for conversion in reversed(_conversions(model))]
    converters = [conversion for conversion in reversed_conversions if isinstance(conversion, WeightConverter)]
    sources = {pattern: converter.source_patterns for converter in converters for pattern in converter.source_patterns}
    waiting: dict[str, dict[str, Tensor]] = {}
    for name, weight in weights:
        of_file, pattern = apply_converters(name, converters)
        group = waiting.setdefault(of_file, {})
        group[name] = weight
        patterns = [] if pattern is None else sources[pattern]
        if len(group) >= len(patterns) and not any("*" in source for source in patterns):
            yield from _reverted(model, waiting.pop(of_file))
    for group in waiting.values():
        yield from _reverted(model, group)


def read_hub_layout(model: Any) -> None:
    """Transpose the weights of a model from files that Transformers left as they were because their sides are equal."""
    converters = [
        conversion
        for conversion in _conversions(model)
        if isinstance(conversion, WeightConverter) and _transposes_by_shape(conversion)
    ]
    if not converters:
        return
    reversed_converters: list[Any] = [converter.reverse_transform() for converter in converters]
    for name, weight in model.named_parameters():
        for converter in reversed_converters:
            if converter.rename_source_key(name)[1] is None:
                continue
            for transpose in _transposes_by_shape(converter):
                if weight.shape[transpose.dim0] == weight.shape[transpose.dim1]:
                    weight.data = weight.data.transpose(transpose.dim0, transpose.dim1).contiguous()


def _reverted(model: Any, group: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    with saves_hub_layout(model):
        reverted = revert_weight_conversion(model, group)
    for name, weight in reverted.items():
        yield (hub_name(name) if is_llava_with_clip(model.config) else name), weight


def _conversions(model: Any) -> list[WeightTransform]:
    """A copy of the conversions that the model was loaded with, or else those of its class."""
    loaded = getattr(model, "_weight_conversions", None)
    if loaded is not None:
        return deepcopy(loaded)
    # As Transformers does: of a model that no file was read for, nobody knows a prefix.
    of_class = get_model_conversion_mapping(model, add_legacy=False)
    return [conversion for conversion in of_class if not isinstance(conversion, PrefixChange)]


def _transposes_by_shape(conversion: WeightTransform) -> list[Transpose]:
    operations = conversion.operations if isinstance(conversion, WeightConverter) else []
    return [operation for operation in operations if isinstance(operation, Transpose) and operation.check_dims]
