"""Sampler that reads each row group of a large table once per epoch, however many processes and workers share it.

The files are shuffled, with the row groups of each and the rows of each group, and divided into lanes of equal length.
The lanes take turns, a pass of one lane after a pass of the next. Processes and their workers take batches in turns as
well, so each lane always has the same reader. The order depends only on seed, epoch and batch size: training resumes,
on any number of processes.
"""

import math
from collections.abc import Iterator

import numpy as np
from torch.utils.data import Sampler

WORKERS = 4
"""Workers of each process that read ahead."""


class RowGroupOrder(Sampler[int]):
    """Each row once per epoch, group by group."""

    def __init__(self, places: np.ndarray, batch_size: int, rows_per_pass: int | None, seed: int) -> None:
        """
        Args:
            places: file and row group of each row, shape [N, 2].
            batch_size: rows of an optimizer step, over all processes.
            rows_per_pass: rows of a batch of one process; by default up to 8 processes share the step.
        """
        self.places, self.seed, self.epoch = places, seed, 0
        self.turn = rows_per_pass or math.gcd(batch_size, max(1, batch_size // 8))
        self.lanes = max(1, batch_size * WORKERS // self.turn)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; the trainer calls it before it iterates."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[int]:
        rng = np.random.default_rng([self.seed, self.epoch])
        files, groups = (rng.permutation(int(column.max(initial=0)) + 1)[column] for column in self.places.T)
        rows = np.lexsort((rng.random(len(self)), groups, files))
        turns = len(rows) // (self.lanes * self.turn)
        whole = turns * self.lanes * self.turn
        in_turn = rows[:whole].reshape(self.lanes, turns, self.turn).swapaxes(0, 1)
        for row in in_turn.ravel():
            yield int(row)
        for row in rng.permutation(rows[whole:]):
            yield int(row)
