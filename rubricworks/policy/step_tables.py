"""Tables of a training's rollouts, gradings and dead letters, with one shard per checkpoint interval.

A killed training resumes from a checkpoint and repeats the steps after it; their shard is then rewritten with the same
rows. A resumed training therefore ends with the same tables as an uninterrupted one.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Generic, Self, TypeVar

from rubricworks.data.response_images import IMAGES, ResponseImages, response_columns
from rubricworks.data.shards import TableFolder
from rubricworks.grading import FailedCall
from rubricworks.rubrics import Scorecard
from rubricworks.runtime.call_table import Row, grading_dead_letters
from rubricworks.runtime.job import Job
from rubricworks.terminal import say
from rubricworks.training.processes import is_main

Grading = TypeVar("Grading")


class GradingTable(Generic[Grading]):
    """Table of a reward's gradings: the reward's sink adds them, and each step drains them as rows."""

    def __init__(
        self,
        name: str,
        row: Callable[[Any, int, Grading], Row] | None,
        verdicts: Callable[[Grading], int],
    ) -> None:
        """
        Args:
            name: name of the table.
            row: (a `StepRollouts`, position of a rollout in it, its grading) → the table's row; None writes no rows.
            verdicts: number of verdicts in one grading.
        """
        self.name, self._row, self._verdicts = name, row, verdicts
        self._gradings: list[Grading] = []

    def add(self, gradings: Iterable[Grading]) -> None:
        """Add a batch's gradings; the sink of a reward. Only the main process, which drains them, collects any."""
        if is_main():
            self._gradings += gradings

    def drain(self, step: Any) -> tuple[list[Row], int]:
        """Return and clear the rows of a step's gradings, and count their verdicts.

        On several processes, the main one has the gradings of the first rollouts only.

        Raises:
            RuntimeError: there are more gradings than rollouts.
        """
        gradings, self._gradings = self._gradings, []
        if len(gradings) > len(step.sample_ids):
            raise RuntimeError(f"step {step.step}: {len(gradings)} gradings of {len(step.sample_ids)} rollouts")
        row = self._row
        rows = [row(step, at, grading) for at, grading in enumerate(gradings)] if row is not None else []
        return rows, sum(map(self._verdicts, gradings))


class DeadLetters:
    """Failed calls of the step in progress. Each class of failure is printed once, not ten thousand times."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._rows: list[Row] = []
        self._printed: set[str] = set()

    def add(self, call: FailedCall) -> None:
        if is_main():
            self._rows += grading_dead_letters(self._job, call)
        if call.error.error_class not in self._printed:
            self._printed.add(call.error.error_class)
            line = f"the judge failed on {call.sample_id}: {call.error}; such rollouts get no reward"
            say(line)

    def drain(self) -> list[Row]:
        """Return and clear the collected rows, in an order that does not depend on which request ended first."""
        rows, self._rows = self._rows, []
        return sorted(rows, key=lambda row: (row["sample_id"], row["response"], row["purpose"], row["criterion"]))


class StepTables:
    """Context manager around a training that writes its tables; leaving it without an error finishes them."""

    def __init__(self, job: Job, *, every: int, gradings: str = "scorecards") -> None:
        """
        Args:
            every: steps between two checkpoints, which is also the number of steps per shard.
            gradings: name of the table of gradings.
        """
        self.every, self._gradings = every, gradings
        tables = ("rollouts", gradings, "dead_letters")
        self._folders = {name: TableFolder(job.out / name, name, job.made_by, every) for name in tables}
        self._rows: dict[str, list[Row]] = {name: [] for name in self._folders}
        self._images = ResponseImages(job.out / IMAGES)
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

    def add(self, step: Any, gradings: Iterable[Row], dead_letters: Sequence[Row] = ()) -> None:
        """Add one step's rollouts (a `StepRollouts`), grading rows and dead letters."""
        shard = (step.step - 1) // self.every
        if shard != self._shard:
            self.commit()
            self._shard = shard
        rows = zip(step.sample_ids, step.responses, step.tokens, step.rewards, step.advantages, strict=True)
        for sample_id, response, tokens, reward, advantage in rows:
            self._images.add(response)
            row = {"step": step.step, "sample_id": sample_id, **response_columns(response), "reward": reward}
            self._rows["rollouts"].append({**row, "tokens": tokens, "advantage": advantage})
        self._rows[self._gradings] += gradings
        self._rows["dead_letters"] += dead_letters

    def commit(self) -> None:
        """Write the rows added so far; called before every checkpoint, which implies that its rollouts are stored."""
        if not self._rows["rollouts"]:
            return
        for name, rows in self._rows.items():
            self._folders[name].commit_shard(self._shard, rows)
            self._rows[name] = []


def judgment_count() -> GradingTable[int]:
    """Return gradings that are only counted, for the progress line; no table stores them."""
    return GradingTable("scorecards", None, int)


def scorecard_table() -> GradingTable[Scorecard]:
    """Return the table `scorecards`."""
    return GradingTable("scorecards", _scorecard_row, lambda card: len(card.verdicts))


def _scorecard_row(step: Any, at: int, card: Scorecard) -> Row:
    if card.sample_id != step.sample_ids[at]:
        raise RuntimeError(
            f"step {step.step}: rollout {at} is of {step.sample_ids[at]}, its scorecard of {card.sample_id}"
        )
    return {
        "step": step.step,
        "sample_id": card.sample_id,
        **response_columns(card.response),
        "judge": card.judge,
        "scorecard": card.model_dump_json(),
        "reward": step.rewards[at],
    }
