"""An image that several rollouts look at goes through the vision tower once.

A group's rollouts share their image, and a batch repeats it for each of them: eight times the same work, forwards and
backwards. Towers of the Qwen-VL kind take the patches of all images in one row (`hidden_states`, `grid_thw`); images
that come again are left out before the tower and put back behind it, so the model sees no difference.
"""

import inspect
from typing import Any

import torch
from torch import Tensor, nn


def encode_images_once(model: nn.Module) -> bool:
    """Do so for this model from now on; says whether its vision tower is one of those."""
    tower = getattr(model.base_model, "visual", None)
    if tower is None or list(inspect.signature(tower.forward).parameters)[:2] != ["hidden_states", "grid_thw"]:
        return False
    passes: list[list[int]] = []

    def leave_out(
        _: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Tensor], dict[str, Any]]:
        patches, *others = args
        grids: Tensor = others[0] if others else kwargs["grid_thw"]
        images = patches.split(grids.prod(-1).tolist())
        firsts = _firsts(images, grids)
        passes.append(firsts)
        kept = sorted(set(firsts))
        return (torch.cat([images[at] for at in kept]),), {**kwargs, "grid_thw": grids[kept]}

    def put_back(_: nn.Module, args: tuple[Tensor], kwargs: dict[str, Any], output: Any) -> Any:
        firsts = passes.pop()
        kept = sorted(set(firsts))
        rows = kwargs["grid_thw"].prod(-1)

        def again(features: Tensor) -> Tensor:
            images = features.split((rows * len(features) // rows.sum()).tolist())
            return torch.cat([images[kept.index(first)] for first in firsts])

        output.last_hidden_state = again(output.last_hidden_state)
        output.pooler_output = again(output.pooler_output)
        if getattr(output, "deepstack_features", None):
            output.deepstack_features = [again(features) for features in output.deepstack_features]
        return output

    tower.register_forward_pre_hook(leave_out, with_kwargs=True)
    tower.register_forward_hook(put_back, with_kwargs=True)
    return True


def _firsts(images: tuple[Tensor, ...], grids: Tensor) -> list[int]:
    """For each image the place of the first that is the same, which may be its own."""
    shapes = grids.tolist()
    firsts: list[int] = []
    for at, image in enumerate(images):
        # Mostly the same as the one before; a batch that was shuffled is searched.
        known = sorted(set(firsts), reverse=True)
        same = (one for one in known if shapes[one] == shapes[at] and torch.equal(images[one], image))
        firsts.append(next(same, at))
    return firsts
