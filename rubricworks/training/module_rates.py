"""Parts of a model that a training updates, and learning rates that differ between them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch


class ModuleRates(NamedTuple):
    """Modules by a part of their parameters' names, such as `vision_tower`."""

    trained: tuple[str, ...] = ()
    """Modules to train; the whole model by default."""
    rates: Mapping[str, float] = {}
    """Module → its learning rate. Other modules use the training's learning rate."""

    def freeze_others(self, model: torch.nn.Module) -> None:
        """Freeze the parameters of all modules that are not trained.

        Raises:
            ValueError: the model has no module of a name.
        """
        names = [name for name, _ in model.named_parameters()]
        for module in (*self.trained, *self.rates):
            if not any(_belongs(name, module) for name in names):
                raise ValueError(f"the model has no module {module}")
        if self.trained:
            for name, parameter in model.named_parameters():
                parameter.requires_grad_(any(_belongs(name, module) for module in self.trained))

    def divide_groups(self, optimizer: Any, model: torch.nn.Module) -> None:
        """Move the parameters that have a rate of their own into groups of the optimizer with that rate."""
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        for group in list(optimizer.param_groups):
            for module, rate in self.rates.items():
                own = [param for param in group["params"] if _belongs(names[id(param)], module)]
                if own:
                    group["params"] = [param for param in group["params"] if not _belongs(names[id(param)], module)]
                    optimizer.add_param_group({**group, "params": own, "lr": rate})


def _belongs(name: str, module: str) -> bool:
    return f".{module}." in f".{name}."
