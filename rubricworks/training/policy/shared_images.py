"""Deduplication of images in the vision tower: an image shared by several rollouts is encoded once.

The rollouts of a group share an image, and a batch repeats it for each of them: eight times the same work, forward and
backward. Qwen-VL towers take the patches of all images in one sequence (`hidden_states`, `grid_thw`); hooks drop the
repeated images before the tower and repeat their features after it, so the model's output does not change.
"""

import inspect
from typing import Any

import torch
from torch import Tensor, nn


def encode_images_once(model: nn.Module) -> bool:
    """Install the hooks on the model's vision tower; return False if it has no Qwen-VL tower."""
    tower = getattr(model.base_model, "visual", None)
    if tower is None or list(inspect.signature(tower.forward).parameters)[:2] != ["hidden_states", "grid_thw"]:
        return False
    passes: list[list[int]] = []

    def drop_repeats(
        _: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Tensor], dict[str, Any]]:
        patches, *others = args
        grids: Tensor = others[0] if others else kwargs["grid_thw"]
        images = patches.split(grids.prod(-1).tolist())
        firsts = _firsts(images, grids)
        passes.append(firsts)
        unique = sorted(set(firsts))
        return (torch.cat([images[at] for at in unique]),), {**kwargs, "grid_thw": grids[unique]}

    def restore_repeats(_: nn.Module, args: tuple[Tensor], kwargs: dict[str, Any], output: Any) -> Any:
        firsts = passes.pop()
        unique = sorted(set(firsts))
        rows = kwargs["grid_thw"].prod(-1)

        def repeat(features: Tensor) -> Tensor:
            images = features.split((rows * len(features) // rows.sum()).tolist())
            return torch.cat([images[unique.index(first)] for first in firsts])

        output.last_hidden_state = repeat(output.last_hidden_state)
        output.pooler_output = repeat(output.pooler_output)
        if getattr(output, "deepstack_features", None):
            output.deepstack_features = [repeat(features) for features in output.deepstack_features]
        return output

    tower.register_forward_pre_hook(drop_repeats, with_kwargs=True)
    tower.register_forward_hook(restore_repeats, with_kwargs=True)
    return True


def _firsts(images: tuple[Tensor, ...], grids: Tensor) -> list[int]:
    """Index, for each image, of the first equal image, possibly itself."""
    shapes = grids.tolist()
    firsts: list[int] = []
    for at, image in enumerate(images):
        # Usually equal to the image before it; in a shuffled batch, the search continues through the others.
        candidates = sorted(set(firsts), reverse=True)
        same = (
            candidate
            for candidate in candidates
            if shapes[candidate] == shapes[at] and torch.equal(images[candidate], image)
        )
        firsts.append(next(same, at))
    return firsts
