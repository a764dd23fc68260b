"""Selection of the rollouts that a step trains on, after all of them were scored (RubricRL, section 3.4).

Of each group's N' rollouts N are kept; all are logged. Advantages are normalised over the kept ones (LN), or over all
(GN, the paper's Table 6).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rubricworks.errors import UserError
from rubricworks.rl import select_rollouts
from rubricworks.training.config import SelectionOptions

_PER_IMAGE = ("pixel_values", "image_grid_thw")


def select_rows(
    rewards_N: Sequence[float | None], group_size: int, options: SelectionOptions, *, seed: int, step: int
) -> list[int]:
    """Rows to train on, `options.keep` of each group, in the rows' order.

    Args:
        rewards_N: rewards group by group, None where a rollout could not be judged.
    """
    rows: list[int] = []
    for start in range(0, len(rewards_N), group_size):
        chosen = select_rollouts(
            rewards_N[start : start + group_size],
            options.keep,
            options.strategy,
            top=options.top,
            seed=(seed * 1_000_003 + step) * 1_000_003 + start // group_size,
        )
        rows += sorted(start + index for index in chosen)
    return rows


def keep_rows(batch: Mapping[str, Any], rows: Sequence[int], count: int) -> dict[str, Any]:
    """Copy of TRL's batch of `count` rollouts with only these rows.

    Every tensor with a row per rollout is sliced; pixels, which have a row per patch, are split by the images' grids.

    Raises:
        UserError: an image model's batch has pixels without grids.
    """
    index = torch.tensor(list(rows))
    result: dict[str, Any] = {}
    for name, value in batch.items():
        if name in _PER_IMAGE:
            continue
        if isinstance(value, Tensor) and value.ndim and value.shape[0] == count:
            result[name] = value[index.to(value.device)]
        elif isinstance(value, list) and len(value) == count:
            result[name] = [value[row] for row in rows]
        else:
            result[name] = value
    if batch.get("pixel_values") is not None:
        result |= _images_of(batch, rows, count)
    return result


def _images_of(batch: Mapping[str, Any], rows: Sequence[int], count: int) -> dict[str, Any]:
    pixels, grids = batch["pixel_values"], batch.get("image_grid_thw")
    if grids is None:
        if pixels.shape[0] != count:
            raise UserError(
                "policy.algorithm.selection: this model's pixels do not divide into rollouts; leave selection out"
            )
        return {"pixel_values": pixels[torch.tensor(list(rows), device=pixels.device)]}
    images = batch.get("num_images") or [1] * count
    grids_by_row = grids.split(list(images))
    pixels_by_row = pixels.split([int(grid.prod(dim=-1).sum()) for grid in grids_by_row])
    return {
        "pixel_values": torch.cat([pixels_by_row[row] for row in rows]),
        "image_grid_thw": torch.cat([grids_by_row[row] for row in rows]),
    }
