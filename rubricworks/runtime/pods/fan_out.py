"""One stage's questions shared out over pods: each makes some of the shards, and the stage puts them together.

A part is a run of its own below the stage's run, `parts/STAGE/NUMBER-of-PARTS`, in which the stage is made of its own
items alone; so it is kept, taken up again and paid for as any stage is. A part holds whole shards, in order: the table
that is put together is the one that a single pod would have made, to the byte. Of a budget, each part may spend an
equal share of what other stages left.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rubricworks.data.manifest import read_manifest
from rubricworks.data.tables import read_shard
from rubricworks.errors import UserError
from rubricworks.kubernetes import FAN_OUT
from rubricworks.kubernetes.work import say
from rubricworks.llm import Budget, read_budget, write_budget
from rubricworks.llm.spending import COUNTED, SPENDING_FILE, add_spending, read_spending
from rubricworks.runtime.job import Job
from rubricworks.runtime.store.downloads import fetch_input
from rubricworks.runtime.store.run_state import RunState
from rubricworks.runtime.store.workspace import keep_run_files, workspace_of
from rubricworks.storage import is_remote, join, open_bucket

if TYPE_CHECKING:
    from rubricworks.kubernetes.config import FanOutPlan

T = TypeVar("T")
Row = dict[str, Any]

PART = "RUBRICWORKS_PART"
_FOLDER = "parts"


@dataclass(frozen=True)
class Part:
    """One of so many."""

    index: int
    of: int

    @property
    def written(self) -> str:
        return f"{self.index}-of-{self.of}"

    def run_of(self, work_run: str, stage: str) -> str:
        """URI of the run that this part of a stage is made in."""
        return join(work_run, _FOLDER, stage, self.written)

    def shards(self, total: int, shard_size: int) -> range:
        """The numbers of its shards; parts differ by one shard at most."""
        shards = -(-total // shard_size)
        return range(self.index * shards // self.of, (self.index + 1) * shards // self.of)

    def items(self, items: Iterable[T], total: int, shard_size: int) -> Iterator[T]:
        shards = self.shards(total, shard_size)
        return islice(items, shards.start * shard_size, shards.stop * shard_size)

    def size(self, total: int, shard_size: int) -> int:
        shards = self.shards(total, shard_size)
        return min(shards.stop * shard_size, total) - shards.start * shard_size


def part_from_environment() -> Part | None:
    """Which part this process is to make, if it is one of several."""
    written = os.environ.get(PART)
    if not written:
        return None
    index, _, of = written.partition("-of-")
    return Part(int(index), int(of))


def fan_out_of(job: Job) -> "FanOutPlan | None":
    """The plan by which this stage is shared out, or None.

    Raises:
        UserError: it is a stage that cannot be.
    """
    if not os.environ.get(FAN_OUT) or part_from_environment() is not None:
        return None
    from rubricworks.kubernetes.config import FanOutPlan, plan_from_environment

    plan = plan_from_environment(FAN_OUT, FanOutPlan)
    if not job.work or not job.in_parts:
        raise UserError(
            f"{job.stage} cannot be shared out over pods; remove cluster.stages.{job.stage}.fan_out (caption_committee "
            "and write_exams can)"
        )
    return plan


class SharedOut:
    """A stage's parts, made."""

    def __init__(self, job: Job, plan: "FanOutPlan", total: int, shard_size: int) -> None:
        assert job.work is not None
        self._job, self._work, self._total, self._shard_size = job, job.work, total, shard_size
        count = min(plan.fan_out.parts, -(-total // shard_size))
        self.parts = [Part(index, count) for index in range(count)]
        self._plan = plan

    def make(self) -> None:
        """Have a pod make each part, and get what they made.

        Raises:
            UserError: parts failed; what the others made is kept.
        """
        from rubricworks.kubernetes.connection import connect
        from rubricworks.kubernetes.indexed_job import follow_indexed_job

        self._share_budget()
        cluster = connect(self._plan.namespace)
        count = len(self.parts)
        say(f"{self._job.stage}: {self._total} items in {count} parts, {self._plan.fan_out.at_once} at once")
        follow_indexed_job(
            cluster,
            self._plan,
            self._work,
            count,
            done=lambda parts: say(f"{self._job.stage}: {parts} of {count} parts done"),
        )
        for part in self.parts:
            self._fetch(part)
        self._count_spending()

    def rows(self, shard: int, tables: Sequence[str]) -> dict[str, list[Row]]:
        """What stands in one shard of the whole, by table; the first of them is the stage's own."""
        part = next(part for part in self.parts if shard in part.shards(self._total, self._shard_size))
        folder, number = self._folder(part), shard - part.shards(self._total, self._shard_size).start
        places = {name: folder if name == tables[0] else folder / name for name in tables}
        return {name: list(read_shard(place, number)) for name, place in places.items()}

    def forget(self) -> None:
        """Delete the parts: all that they made stands in the stage's own tables."""
        shutil.rmtree(workspace_of(self._run(self.parts[0])).parent, ignore_errors=True)
        if is_remote(self._work.run):
            bucket = open_bucket(join(self._work.run, _FOLDER, self._job.stage))
            bucket.delete(*(found.key for found in bucket.objects()))

    def _run(self, part: Part) -> str:
        return part.run_of(self._work.run, self._job.stage)

    def _folder(self, part: Part) -> Path:
        return workspace_of(self._run(part)) / self._job.stage

    def _share_budget(self) -> None:
        """A cap over a part's own ledger, the same whenever it is set; so it also holds for a part that goes on."""
        budget = read_budget(self._job.run)
        others = [row for row in read_spending(self._job.run / SPENDING_FILE) if row["stage"] != self._job.stage]
        share = Budget(
            tokens=_share(budget.tokens, others, ("prompt_tokens", "completion_tokens"), len(self.parts)),
            dollars=_share(budget.dollars, others, ("cost",), len(self.parts)),
        )
        for part in self.parts:
            folder = workspace_of(self._run(part))
            folder.mkdir(parents=True, exist_ok=True)
            write_budget(folder, share)
            if is_remote(self._work.run):
                keep_run_files(self._run(part))

    def _fetch(self, part: Part) -> None:
        if is_remote(self._work.run):
            uri = self._run(part)
            fetch_input(join(uri, self._job.stage), self._folder(part))
            RunState(open_bucket(uri), workspace_of(uri), self._job.stage).fetch(whole=False)
        read_manifest(self._folder(part))

    def _count_spending(self) -> None:
        """What the parts spent is what the stage spent."""
        sums: dict[tuple[str, str], Row] = {}
        for part in self.parts:
            for row in read_spending(workspace_of(self._run(part)) / SPENDING_FILE):
                empty = {**dict.fromkeys(COUNTED, 0), "errors": {}}
                total = sums.setdefault((row["purpose"], row["model"]), {**row, **empty})
                for name in COUNTED:
                    total[name] += row[name]
                _add(total["errors"], row["errors"])
        add_spending(self._job.run / SPENDING_FILE, sums.values())


def _share(cap: float | None, others: Sequence[Row], names: Sequence[str], parts: int) -> Any:
    """Of what other stages left of a cap; at least the least that is one."""
    if cap is None:
        return None
    left = cap - sum(row[name] for row in others for name in names)
    return max(1, int(left) // parts) if isinstance(cap, int) else max(1e-9, left / parts)


def _add(totals: dict[str, int], more: Mapping[str, int]) -> None:
    for kind, count in more.items():
        totals[kind] = totals.get(kind, 0) + count
