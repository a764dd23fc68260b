"""Fan-out of one stage over pods or over processes of one pod: each builds some of the shards, the stage merges them.

A part is a run of its own below the stage's run, `parts/STAGE/NUMBER-of-PARTS`, in which the stage processes its own
items alone; so it is stored, resumed and charged like any stage. A part holds whole shards, in order: the merged table
is byte-identical to the one that a single process would build. Each part may spend an equal share of the budget that
other stages left.
"""

import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rubricworks.data.manifest import read_manifest
from rubricworks.data.tables import Row, read_shard
from rubricworks.errors import UserError
from rubricworks.kubernetes import FAN_OUT
from rubricworks.kubernetes.work import StageWork, log_line
from rubricworks.llm import Budget, read_budget, write_budget
from rubricworks.llm.spending import COUNTERS, SPENDING_FILE, merge_spending, read_spending
from rubricworks.runtime.job import Job
from rubricworks.runtime.pods.part_processes import parts_here, run_parts
from rubricworks.runtime.store.downloads import fetch_input
from rubricworks.runtime.store.run_state import RunState
from rubricworks.runtime.store.workspace import upload_run_files, workspace_path
from rubricworks.storage import is_remote, join, open_bucket

if TYPE_CHECKING:
    from rubricworks.kubernetes.config import FanOutPlan

T = TypeVar("T")

PART_ENV = "RUBRICWORKS_PART"
"""Environment variable of a part's process: its label, `NUMBER-of-PARTS`."""
_FOLDER = "parts"


@dataclass(frozen=True)
class Part:
    """Part `index` of the `count` parts of a stage."""

    index: int
    count: int

    @property
    def label(self) -> str:
        return f"{self.index}-of-{self.count}"

    def run_of(self, work_run: str, stage: str) -> str:
        """Return the URI of the run in which this part of a stage is built."""
        return join(work_run, _FOLDER, stage, self.label)

    def shards(self, total: int, shard_size: int) -> range:
        """Return the numbers of its shards; parts differ by one shard at most."""
        shards = -(-total // shard_size)
        return range(self.index * shards // self.count, (self.index + 1) * shards // self.count)

    def items(self, items: Iterable[T], total: int, shard_size: int) -> Iterator[T]:
        shards = self.shards(total, shard_size)
        return islice(items, shards.start * shard_size, shards.stop * shard_size)

    def size(self, total: int, shard_size: int) -> int:
        shards = self.shards(total, shard_size)
        return min(shards.stop * shard_size, total) - shards.start * shard_size


def part_from_environment() -> Part | None:
    """Return the part that this process builds; None outside a fan-out."""
    label = os.environ.get(PART_ENV)
    if not label:
        return None
    index, _, count = label.partition("-of-")
    return Part(int(index), int(count))


def fan_out_plan(job: Job) -> "FanOutPlan | None":
    """Return the fan-out plan from the environment; None without one, and in the parts themselves.

    Raises:
        UserError: the stage cannot be divided into parts.
    """
    if not os.environ.get(FAN_OUT) or part_from_environment() is not None:
        return None
    from rubricworks.kubernetes.config import FanOutPlan, plan_from_environment

    plan = plan_from_environment(FAN_OUT, FanOutPlan)
    if not job.work or not job.can_fan_out:
        raise UserError(
            f"{job.stage} cannot be shared out over pods; remove cluster.stages.{job.stage}.fan_out (those "
            "that make many calls can, such as caption_committee)"
        )
    return plan


def stage_parts(
    job: Job, total: int, shard_size: int, *, place: str = "", accelerators: int = 0
) -> "StageParts | None":
    """Return the parts into which this process divides its stage; None if it does all the work itself.

    Args:
        total: number of items.
        place: folder of the stage's table in its own.
        accelerators: those that the stage's model needs here; 0 for a stage that loads none.
    Raises:
        UserError: the stage cannot be divided.
    """
    if total <= shard_size or part_from_environment() is not None:
        return None
    if plan := fan_out_plan(job):
        return PodParts(job, plan, total, shard_size, place)
    if job.work and accelerators and (count := parts_here(job.stage, accelerators)) > 1:
        return ProcessParts(job, count, accelerators, total, shard_size, place)
    return None


class StageParts(ABC):
    """The parts of one fanned-out stage: run them, read their rows, delete them."""

    def __init__(self, job: Job, work: StageWork, count: int, total: int, shard_size: int, place: str) -> None:
        self._place = place
        self._job, self._work, self._total, self._shard_size = job, work, total, shard_size
        count = min(count, -(-total // shard_size))
        self.parts = [Part(index, count) for index in range(count)]
        self._done, self._start = 0, time.monotonic()

    def run(self) -> None:
        """Run each part, then fetch the outputs and add up the spending.

        Raises:
            UserError: parts failed; the output of the others is kept.
        """
        self._share_budget()
        self._start = time.monotonic()
        self._run_all()
        for part in self.parts:
            self._fetch(part)
        self._count_spending()

    @abstractmethod
    def _run_all(self) -> None:
        """Run all parts and return when they are done."""

    def _report(self, parts: int) -> None:
        self._done = parts
        log_line(f"{self._job.stage}: {parts} of {len(self.parts)} parts done")
        self._write_progress()

    def _write_progress(self, waiting: str = "") -> None:
        rate = self._done / max(time.monotonic() - self._start, 1e-3)
        self._job.progress_file.write(self._done, len(self.parts), "parts", rate, waiting)

    def rows(self, shard: int, tables: Sequence[str]) -> dict[str, list[Row]]:
        """Return table → rows of one shard of the merged tables; the first of `tables` is the stage's own."""
        part = next(part for part in self.parts if shard in part.shards(self._total, self._shard_size))
        folder, number = self._folder(part), shard - part.shards(self._total, self._shard_size).start
        folders = {name: folder / (self._place if name == tables[0] else name) for name in tables}
        return {name: list(read_shard(path, number)) for name, path in folders.items()}

    def delete(self) -> None:
        """Delete the parts, once their rows are in the stage's own tables."""
        shutil.rmtree(workspace_path(self._run_uri(self.parts[0])).parent, ignore_errors=True)
        if is_remote(self._work.run):
            bucket = open_bucket(join(self._work.run, _FOLDER, self._job.stage))
            bucket.delete(*(item.key for item in bucket.objects()))

    def _run_uri(self, part: Part) -> str:
        return part.run_of(self._work.run, self._job.stage)

    def _folder(self, part: Part) -> Path:
        return workspace_path(self._run_uri(part)) / self._job.stage

    def _share_budget(self) -> None:
        """Cap each part's own ledger; the cap depends on other stages alone, so it also holds for a resumed part."""
        budget = read_budget(self._job.run)
        others = [row for row in read_spending(self._job.run / SPENDING_FILE) if row["stage"] != self._job.stage]
        share = Budget(
            tokens=_share(budget.tokens, others, ("prompt_tokens", "completion_tokens"), len(self.parts)),
            dollars=_share(budget.dollars, others, ("cost",), len(self.parts)),
        )
        for part in self.parts:
            folder = workspace_path(self._run_uri(part))
            folder.mkdir(parents=True, exist_ok=True)
            write_budget(folder, share)
            if is_remote(self._work.run):
                upload_run_files(self._run_uri(part))

    def _fetch(self, part: Part) -> None:
        if is_remote(self._work.run):
            uri = self._run_uri(part)
            fetch_input(join(uri, self._job.stage), self._folder(part))
            RunState(open_bucket(uri), workspace_path(uri), self._job.stage).fetch(whole=False)
        read_manifest(self._folder(part) / self._place)

    def _count_spending(self) -> None:
        """Add the parts' spending, by purpose and model, to the stage's."""
        sums: dict[tuple[str, str], Row] = {}
        for part in self.parts:
            for row in read_spending(workspace_path(self._run_uri(part)) / SPENDING_FILE):
                empty = {**dict.fromkeys(COUNTERS, 0), "errors": {}}
                total = sums.setdefault((row["purpose"], row["model"]), {**row, **empty})
                for name in COUNTERS:
                    total[name] += row[name]
                _add_counts(total["errors"], row["errors"])
        merge_spending(self._job.run / SPENDING_FILE, sums.values())


class PodParts(StageParts):
    """Parts in pods of their own, as the recipe's `fan_out` asks."""

    def __init__(self, job: Job, plan: "FanOutPlan", total: int, shard_size: int, place: str) -> None:
        assert job.work is not None
        super().__init__(job, job.work, plan.fan_out.parts, total, shard_size, place)
        self._plan = plan

    def _run_all(self) -> None:
        from rubricworks.kubernetes.connection import connect
        from rubricworks.kubernetes.indexed_job import follow_indexed_job

        cluster, count = connect(self._plan.namespace), len(self.parts)
        log_line(f"{self._job.stage}: {self._total} items in {count} parts, {self._plan.fan_out.at_once} at once")
        follow_indexed_job(
            cluster,
            self._plan,
            self._work,
            count,
            on_progress=self._report,
            on_waiting=self._write_progress,
        )


class ProcessParts(StageParts):
    """Parts in processes here, one for each of the accelerators, or for each group of those that the model needs."""

    def __init__(self, job: Job, count: int, accelerators: int, total: int, shard_size: int, place: str) -> None:
        assert job.work is not None
        inputs = {name: str(path) for name, path in job.inputs.items()}
        super().__init__(job, job.work._replace(run=str(job.run), inputs=inputs), count, total, shard_size, place)
        self._accelerators = accelerators

    def _run_all(self) -> None:
        count = len(self.parts)
        log_line(f"{self._job.stage}: {self._total} items in {count} processes, {self._accelerators} accelerators each")
        run_parts(count, self._accelerators, self._work, self._report)


def _share(cap: float | None, others: Sequence[Row], names: Sequence[str], parts: int) -> Any:
    """Return an equal share of the part of a cap that other stages did not use, at least the smallest valid cap."""
    if cap is None:
        return None
    rest = cap - sum(row[name] for row in others for name in names)
    return max(1, int(rest) // parts) if isinstance(cap, int) else max(1e-9, rest / parts)


def _add_counts(totals: dict[str, int], more: Mapping[str, int]) -> None:
    for kind, count in more.items():
        totals[kind] = totals.get(kind, 0) + count
