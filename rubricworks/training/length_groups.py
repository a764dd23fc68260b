"""Sampler that batches rows of similar length, to reduce padding."""

import random
from collections.abc import Iterator, Sequence

from torch.utils.data import Sampler

_BATCHES = 16
"""Batches to sort by length together: enough for similar lengths, few enough that an epoch stays well mixed."""


class LengthGroups(Sampler[int]):
    """Each row once per epoch, in an order that depends only on seed and epoch, so that training can resume."""

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.lengths, self.batch_size, self.seed = lengths, batch_size, seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; the trainer calls it before it iterates."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        rng = random.Random(f"{self.seed}:{self.epoch}")
        rows = rng.sample(range(len(self.lengths)), len(self.lengths))
        batches = []
        for start in range(0, len(rows), _BATCHES * self.batch_size):
            chunk = sorted(rows[start : start + _BATCHES * self.batch_size], key=lambda row: self.lengths[row])
            batches += [chunk[at : at + self.batch_size] for at in range(0, len(chunk), self.batch_size)]
        last = batches.pop() if batches and len(batches[-1]) < self.batch_size else []
        rng.shuffle(batches)
        for batch in (*batches, last):
            yield from batch
