"""The order in which texts are trained on: rows of like length share a batch, or most of it is padding."""

import random
from collections.abc import Iterator, Sequence

from torch.utils.data import Sampler

_BATCHES = 16
"""So many batches are drawn at once and sorted: enough to fit lengths, few enough that an epoch stays well mixed."""


class LengthGroups(Sampler[int]):
    """Every row once an epoch, in an order that depends on seed and epoch alone: a resumed training finds its place."""

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.lengths, self.batch_size, self.seed = lengths, batch_size, seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the trainer before it iterates."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        rng = random.Random(f"{self.seed}:{self.epoch}")
        rows = rng.sample(range(len(self.lengths)), len(self.lengths))
        batches = []
        for start in range(0, len(rows), _BATCHES * self.batch_size):
            drawn = sorted(rows[start : start + _BATCHES * self.batch_size], key=lambda row: self.lengths[row])
            batches += [drawn[at : at + self.batch_size] for at in range(0, len(drawn), self.batch_size)]
        last = batches.pop() if batches and len(batches[-1]) < self.batch_size else []
        rng.shuffle(batches)
        for batch in (*batches, last):
            yield from batch
