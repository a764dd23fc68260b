"""JSON schema of recipes, with the docstring of each field as its description.

Editors that know the schema complete and check YAML; the reference page of recipes is made from it.
"""

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise
from typing import Any, Union

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from rubricworks.recipe.methods import METHODS, recipe_class

_COMMON = {
    "batch_size": "Rows of a batch.",
    "betas": "Decay rates of the moments of AdamW.",
    "decodings": "Decodings that are evaluated: `greedy`, `sampled`.",
    "gradient_checkpointing": "Recompute activations in the backward pass: less memory, slower steps.",
    "heads": "Attention heads.",
    "hidden": "Width of the language model.",
    "image_side": "Height and width that images are scaled to, in pixels.",
    "initializer_range": "Standard deviation of the initial weights.",
    "intermediate": "Width of the feed-forward layers.",
    "layers": "Layers of the language model.",
    "learning_rate": "Peak learning rate of AdamW.",
    "log_every": "Steps between two rows of the training log.",
    "max_grad_norm": "Norm at which gradients are clipped.",
    "max_new_tokens": "Longest response, in tokens.",
    "max_prompt_tokens": "Longest prompt, in tokens.",
    "max_tokens": "Longest sequence, in tokens.",
    "merge": "Side of the square of patches that become one token.",
    "patch": "Side of a patch, in pixels.",
    "pipeline": "Method of the recipe.",
    "rope_theta": "Base of the rotary position encoding.",
    "sampling_steps": "Denoising steps of an image.",
    "save_every": "Steps between two checkpoints.",
    "schedule": "Learning rate after the warm-up.",
    "shard_size": "Rows of a file of the table; a stage resumes after its last complete file.",
    "steps": "Optimizer steps.",
    "temperature": "Sampling temperature.",
    "top_p": "Probability mass of nucleus sampling.",
    "vision_depth": "Layers of the vision tower.",
    "vision_heads": "Attention heads of the vision tower.",
    "vision_hidden": "Width of the vision tower.",
    "vision_layers": "Layers of the vision tower.",
    "weight_decay": "Weight decay of AdamW.",
}
"""Meaning of the fields whose name means the same wherever it occurs."""


def recipe_schema() -> dict[str, Any]:
    """Schema of a recipe of any method."""
    recipes: Any = Union[tuple(recipe_class(method) for method in METHODS)]  # noqa: UP007 - members known at run time only
    return TypeAdapter(recipes).json_schema(schema_generator=_DescribedSchema)


class _DescribedSchema(GenerateJsonSchema):
    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described = super().model_schema(schema)
        module = inspect.getmodule(schema["cls"])
        described.setdefault("description", inspect.cleandoc(module.__doc__) if module and module.__doc__ else "")
        texts = field_docs(schema["cls"])
        for name, field in described.get("properties", {}).items():
            if text := texts.get(name) or _COMMON.get(name):
                field["description"] = text
        return described


def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Docstrings of a model's fields, own and inherited, in one line each.

    Pydantic's `use_attribute_docstrings` gives the same, but reads the source of every model at import.
    """
    texts: dict[str, str] = {}
    for parent in reversed(model.__mro__):
        if issubclass(parent, BaseModel) and parent is not BaseModel:
            texts |= _own_docs(parent)
    return texts


@cache
def _own_docs(model: type[BaseModel]) -> dict[str, str]:
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(body, ast.ClassDef)
    texts = {}
    for field, text in pairwise(body.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                texts[name] = " ".join(inspect.cleandoc(doc).split())
    return texts
