"""Memory of one training step at full size, measured without a GPU and without the memory.

The step runs on fake tensors, which have shapes and no content: model, trainer's log-probabilities, loss and backward
pass are those of a real one. What is alive at once is counted; gradients are let go of as soon as they are complete, as
FSDP reduces them. Parameters, gradients and Adam's moments are counted beside it, each process its share.

A prompt's image tokens count as text; a vision tower's activations are measured by `tower_memory`.
"""

import copy
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from trl.trainer.utils import selective_log_softmax

from rubricworks.rehearsal.live_bytes import LiveBytes
from rubricworks.rehearsal.shapes import Shape

_SHALLOW = (2, 4)
"""Layers at which activations are measured; they grow by the same amount with each."""


class StepShape(NamedTuple):
    """Shape of a step on one process."""

    rows: int
    tokens: int
    """Tokens of a prompt and its response."""
    response: int
    """Tokens of the response."""
    checkpointing: bool
    autocast: bool
    """bfloat16 arithmetic on whole float32 weights, whose casts are kept for the pass; without FSDP."""


class StepMemory(NamedTuple):
    """Bytes of a step on one process."""

    parameters: int
    """Number of parameters of the whole model."""
    state: int
    """Weights, gradients and Adam's moments: this process's share."""
    gathered: int
    """The largest layer, gathered with its gradients."""
    activations: int

    @property
    def total(self) -> int:
        return self.state + self.gathered + self.activations


def step_memory(shape: Shape, step: StepShape, *, bytes_per_parameter: int, processes: int) -> StepMemory:
    """Measure a step of a model of Transformers.

    Args:
        shape: fields of its `config.json`.
        bytes_per_parameter: of weights, gradients and Adam's state together.
        processes: processes that share the parameters; 1 keeps them whole.
    """
    config = AutoConfig.for_model(**shape)
    layers = _text_of(config).num_hidden_layers
    parameters, largest = _count(config, step)
    low, high = (_activations(config, min(depth, layers), step) for depth in _SHALLOW)
    per_layer = (high - low) // (_SHALLOW[1] - _SHALLOW[0])
    activations = low + per_layer * max(0, layers - _SHALLOW[0])
    gathered = 2 * 2 * largest if processes > 1 else 0
    return StepMemory(parameters, parameters * bytes_per_parameter // processes, gathered, activations)


def _activations(config: Any, layers: int, step: StepShape) -> int:
    """Most bytes alive beside parameters and finished gradients, at so many layers."""
    config = copy.deepcopy(config)
    text = _text_of(config)
    text.num_hidden_layers = layers
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[:layers]
    with FakeTensorMode():
        model = _build(config, step)
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(_let_go)
        if step.checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        ids = torch.zeros(step.rows, step.tokens, dtype=torch.long)
        counter = LiveBytes({parameter.untyped_storage()._cdata for parameter in model.parameters()})
        with counter, torch.autocast("cpu", torch.bfloat16, enabled=step.autocast):
            logits = model(input_ids=ids, logits_to_keep=step.response + 1, use_cache=False).logits[:, :-1]
            loss = -selective_log_softmax(logits, ids[:, -step.response :]).mean()
            del logits
            loss.backward()
    return counter.most


def _let_go(parameter: torch.Tensor) -> None:
    parameter.grad = None


def _count(config: Any, step: StepShape) -> tuple[int, int]:
    """Parameters of the model, and of its largest layer."""
    with FakeTensorMode():
        model = _build(config, step)
        layers = [module for module in model.modules() if type(module).__name__ in (model._no_split_modules or ())]
        largest = max((sum(part.numel() for part in layer.parameters()) for layer in layers), default=0)
        return sum(parameter.numel() for parameter in model.parameters()), largest


def _build(config: Any, step: StepShape) -> Any:
    kind: Any = AutoModelForCausalLM
    if type(config) in AutoModelForImageTextToText._model_mapping:
        kind = AutoModelForImageTextToText
    return kind.from_config(config, dtype=torch.float32 if step.autocast else torch.bfloat16).train()


def _text_of(config: Any) -> Any:
    return config.get_text_config()
