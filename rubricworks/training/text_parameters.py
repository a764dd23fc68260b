"""Parameters that texts do not reach, such as the vision tower of a model that is trained without images.

They get no gradient, so Adam has no state of them, and a sharded training cannot load its checkpoint ("Missing
optimizer state"). Frozen parameters are in no optimizer.
"""

from typing import Any

from transformers import ProcessorMixin

from rubricworks.training.generate import Processor
from rubricworks.training.processes import broadcast, is_main
from rubricworks.training.processing import encode_prompts


def freeze_unreached_by_text(model: Any, processor: Processor) -> None:
    """Freeze the parameters of a vision-language model that the loss of a text does not depend on.

    The main process runs the model on one short text; the others may not hold its weights.
    """
    if not isinstance(processor, ProcessorMixin):
        return
    reached = broadcast(_reached_by_text(model, processor) if is_main() else set())
    for name, parameter in model.named_parameters():
        if name not in reached:
            parameter.requires_grad_(False)


def _reached_by_text(model: Any, processor: Processor) -> set[str]:
    """Names of the parameters in the graph of a text's logits."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    was_training = model.training
    model.eval()
    pending = [model(**encode_prompts(processor, [None], ["a"]), use_cache=False).logits.grad_fn]
    model.train(was_training)
    visited, reached = set(pending), set()
    while pending:
        node = pending.pop()
        if (name := names.get(id(getattr(node, "variable", None)))) is not None:
            reached.add(name)
        following = {function for function, _ in node.next_functions if function is not None} - visited
        visited |= following
        pending += following
    return reached
