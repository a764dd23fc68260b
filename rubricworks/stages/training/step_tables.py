"""The rollouts of a training, what was said of them, and dead letters, as tables whose shards end where checkpoints do.

A training that was killed goes on from a checkpoint and draws the steps after it again; their shard is then written
again, with the same rows. So the tables of a resumed training are those of one that was never stopped.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Self

from rubricworks.data.shards import TableFolder
from rubricworks.rubrics import Scorecard
from rubricworks.runtime.call_table import Row
from rubricworks.runtime.job import Job


class StepTables:
    """Use it as a context manager around the training; leaving it without an error finishes the tables."""

    def __init__(self, job: Job, *, every: int, graded: str = "scorecards") -> None:
        """
        Args:
            every: steps between two checkpoints, and the steps of one shard.
            graded: the table of what was said of the rollouts.
        """
        self.every, self._graded = every, graded
        tables = ("rollouts", graded, "dead_letters")
        self._folders = {name: TableFolder(job.out / name, name, job.made_by, every) for name in tables}
        self._rows: dict[str, list[Row]] = {name: [] for name in self._folders}
        self._shard = -1
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for folder in self._folders.values():
            self._stack.enter_context(folder.locked())
            folder.begin()
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        with self._stack:
            if kind is None:
                self.commit()
                for folder in self._folders.values():
                    shards = 0
                    while folder.has_shard(shards):
                        shards += 1
                    folder.finish(shards)

    def add(self, step: Any, graded: Iterable[Row], dead_letters: Sequence[Row] = ()) -> None:
        """Keep one step's rollouts (a `StepRollouts`), what was said of them and what could not be."""
        shard = (step.step - 1) // self.every
        if shard != self._shard:
            self.commit()
            self._shard = shard
        rows = zip(step.sample_ids, step.responses, step.tokens, step.rewards, step.advantages, strict=True)
        for sample_id, response, tokens, reward, advantage in rows:
            row = {"step": step.step, "sample_id": sample_id, "response": response, "reward": reward}
            self._rows["rollouts"].append({**row, "tokens": tokens, "advantage": advantage})
        self._rows[self._graded] += graded
        self._rows["dead_letters"] += dead_letters

    def commit(self) -> None:
        """Write what was added; before every checkpoint, because that vouches for the rollouts behind it."""
        if not self._rows["rollouts"]:
            return
        for name, rows in self._rows.items():
            self._folders[name].commit_shard(self._shard, rows)
            self._rows[name] = []


def scorecard_rows(step: Any, scorecards: Sequence[Scorecard]) -> Iterator[Row]:
    """Rows of `scorecards`, for one step's rollouts."""
    for card, reward in zip(scorecards, step.rewards, strict=False):
        yield {
            "step": step.step,
            "sample_id": card.sample_id,
            "response": card.response,
            "judge": card.judge,
            "scorecard": card.model_dump_json(),
            "reward": reward,
        }
