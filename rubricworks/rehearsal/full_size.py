"""Mistakes that show at full size alone, found by arithmetic on the models' own shapes."""

from collections.abc import Iterator, Mapping
from typing import Any

from rubricworks.recipe import Recipe
from rubricworks.recipe.sizes import workspace_warning
from rubricworks.rehearsal.shapes import Shape


def full_size_problems(recipe: Recipe, models: Mapping[str, str], shapes: Mapping[str, Shape]) -> Iterator[str]:
    """Yield a line for each setting that full size refuses and a miniature does not meet.

    Args:
        models: field → model that the recipe loads by it.
        shapes: model → its own shape.
    """
    data = recipe.model_dump(mode="json", exclude={"arms", "cluster"})
    base = str(recipe.base_model)
    for field, section in _sections(data, ()):
        parallel = section.get("tensor_parallel", 1)
        own = section.get("student") or data.get(field.partition(".")[0], {}).get("student") or base
        text = _text(shapes.get(models.get(field, ""), shapes.get(own)))
        for name in ("num_attention_heads", "num_key_value_heads", "vocab_size"):
            count = text.get(name)
            # vLLM repeats keys and values on GPUs beyond their number.
            fits = not count or count % parallel == 0 or (name == "num_key_value_heads" and parallel % count == 0)
            if not fits:
                yield f"{field}.tensor_parallel is {parallel}, which does not divide {name} of {own}, {count}"
                break
    if warning := workspace_warning(recipe):
        yield warning


def _sections(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Sections with a `tensor_parallel` above 1, with their paths."""
    if isinstance(value, dict):
        if value.get("tensor_parallel", 1) > 1:
            yield ".".join(path), value
        for name, inner in value.items():
            yield from _sections(inner, (*path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _sections(inner, (*path, str(number)))


def _text(shape: Shape | None) -> Shape:
    shape = shape or {}
    text: Shape = shape.get("text_config", shape)
    return text
