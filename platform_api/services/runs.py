"""Runs and their tables, listed from the index; steps, logs and pages from their files."""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.data.manifest import Shard
from rubricworks.errors import UserError
from rubricworks.platform_api.db.tables import Run, RunTable, Submission
from rubricworks.platform_api.pagination import PageRequest, query_page
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.schemas.bodies import JsonObject, Page
from rubricworks.platform_api.schemas.runs import StepStatistics
from rubricworks.redaction import redact
from rubricworks.reports.rubric_audit import AUDIT_PAGE
from rubricworks.runs.run_name import check_run_name
from rubricworks.runs.store import RunStore
from rubricworks.runs.tables import StoredTable
from rubricworks.storage.plain_json import plain_object

T = TypeVar("T")

REPORT = "report.html"
_LOG_BYTES = 256 * 1024
_SHORTEST_PART = 3
"""Characters of a part of a name by which a run is known; a shorter part is in many names."""
_MOST_STEPS = 100_000
_COUNTED_FOR = 5.0
_WRITTEN = (RunTable.modified, RunTable.run, RunTable.path)
"""Order of tables."""
_counts: WeakKeyDictionary[Engine, tuple[float, dict[str, int]]] = WeakKeyDictionary()
"""Database → time until which its counts hold, and the counts."""


class WrittenPages(NamedTuple):
    """Pages among a run's files."""

    report: bool
    audits: list[str]
    """Stages that audited rubrics (`rubric.audit`)."""


async def count_runs(session: AsyncSession) -> dict[str, int]:
    """Number of runs in each state, counted at most every few seconds: Postgres reads all rows for it."""
    engine = session.get_bind().engine
    known = _counts.get(engine)
    if known is None or time.monotonic() >= known[0]:
        rows = await session.execute(select(Run.state, func.count()).group_by(Run.state))
        known = _counts[engine] = (time.monotonic() + _COUNTED_FOR, {state: count for state, count in rows})
    return known[1]


async def get_run(session: AsyncSession, name: str) -> Run:
    """A run.

    Raises:
        NotFound: there is none of that name; says which names are alike.
    """
    run = await session.get(Run, name)
    if run is None:
        hint = await _name_like(session, name)
        raise NotFound(f"there is no run {name!r}; " + (f"did you mean {hint}?" if hint else "/runs lists all"))
    return run


async def list_tables(
    session: AsyncSession, kind: str, *, run: str | None = None, limit: int | None = None
) -> Sequence[RunTable]:
    """Finished tables of one schema, the last written first."""
    query = select(RunTable).where(RunTable.kind == kind)
    if run is not None:
        query = query.where(RunTable.run == run)
    return (await session.scalars(query.order_by(*(column.desc() for column in _WRITTEN)).limit(limit))).all()


async def tables_of(session: AsyncSession, run: str) -> Sequence[RunTable]:
    """Finished tables of a run, the last written first."""
    query = select(RunTable).where(RunTable.run == run).order_by(*(column.desc() for column in _WRITTEN))
    return (await session.scalars(query)).all()


async def table_page(
    session: AsyncSession,
    kind: str,
    asked: PageRequest,
    make: Callable[[RunTable], T],
    *,
    run: str | None = None,
    least_rows: int = 0,
) -> Page[T]:
    """A page of the tables of one schema, the last written first."""
    query = select(RunTable).where(RunTable.kind == kind, RunTable.rows >= least_rows)
    query = query if run is None else query.where(RunTable.run == run)
    return await query_page(session, query, _WRITTEN, asked, make)


async def get_table(session: AsyncSession, run: str, path: str, kind: str) -> RunTable:
    """A table of a run.

    Raises:
        NotFound: the run has no finished table there, or it is of another schema.
    """
    table = await session.get(RunTable, (run, path))
    if table is None or table.kind != kind:
        raise NotFound(f"{path} of {run} has no finished table of {kind.replace('_', ' ')}")
    return table


def open_table(store: RunStore, table: RunTable) -> StoredTable:
    """The rows of a table that the index has."""
    return StoredTable(
        store, table.run, table.path, table.kind, [Shard.model_validate(shard) for shard in table.shards]
    )


async def simulated_runs(session: AsyncSession, names: Iterable[str]) -> dict[str, bool]:
    """Run → True if it is simulated, of those names that are runs here."""
    query = select(Run.name, Run.simulated).where(Run.name.in_(sorted(set(names))))
    return {name: is_simulated for name, is_simulated in await session.execute(query)}


async def read_steps(store: RunStore, run: str, stage: str, after: int) -> list[StepStatistics]:
    """Statistics of a training's steps after the given one, as it wrote them; figures that are not finite are null."""
    content = await read_file(store, run, f"{stage}/steps.jsonl")
    steps: list[StepStatistics] = []
    for line in (content or b"").splitlines():
        try:
            row = plain_object(line)
        except ValueError:  # the last line may be half written
            continue
        if isinstance(row.get("step"), int) and row["step"] > after and len(steps) < _MOST_STEPS:
            steps.append(row)
    return steps


async def read_log(store: RunStore, run: str, stage: str) -> str:
    """End of a stage's log, without secrets.

    Raises:
        NotFound: the stage has no log.
    """
    end = await _read_log_end(store, run, stage, 0)
    if end is None:
        raise NotFound(f"{stage} of {run} has no log; runs on Kubeflow keep theirs there")
    return redact(end[0].decode(errors="replace"))


async def log_after(store: RunStore, run: str, stage: str, begin: int, *, is_going: bool = True) -> tuple[str, int]:
    """Lines of a stage's log after so many bytes, without secrets, and the bytes that are known then.

    Args:
        is_going: whether the run may write on: a last line without its end is left for the next call.
    """
    content, begin = await _read_log_end(store, run, stage, begin) or (b"", begin)
    length = content.rfind(b"\n") + 1 if is_going else len(content)
    return redact(content[:length].decode(errors="replace")), begin + length


async def _read_log_end(store: RunStore, run: str, stage: str, begin: int) -> tuple[bytes, int] | None:
    """Bytes of a log from one on, and the place of the first; a line cut off at its front may hold half a secret."""
    path = _checked_path(run, f"logs/{stage}.log")
    end = await asyncio.to_thread(store.read_end, run, path, begin, _LOG_BYTES)
    if end is None or end[1] in (0, begin):
        return end
    cut = end[0].find(b"\n") + 1
    return end[0][cut:], end[1] + cut


async def written_pages(store: RunStore, run: str) -> WrittenPages:
    """Find the pages that a run has written."""
    check_name(run)
    files = await asyncio.to_thread(store.files, run)
    audits = [path.removesuffix(f"/{AUDIT_PAGE}") for path in files if path.endswith(f"/{AUDIT_PAGE}")]
    return WrittenPages(REPORT in files, sorted(stage for stage in audits if "/" not in stage))


async def submission_links(session: AsyncSession, run: str) -> dict[str, str]:
    """Page of a run that was submitted to Kubeflow, which the database knows."""
    page = await session.scalar(select(Submission.page).where(Submission.run == run))
    return {"Kubeflow": page} if page and page.startswith(("https://", "http://")) else {}


async def outside_links(session: AsyncSession, store: RunStore, run: str) -> dict[str, str]:
    """Pages of the run elsewhere: name of the program → address."""
    links = await submission_links(session, run)
    config = (await read_object(store, run, "tracking/settings.json")).get("config")
    uri = config.get("uri") if isinstance(config, dict) else None
    uri = str(uri or os.environ.get("MLFLOW_TRACKING_URI", ""))
    number = (await read_object(store, run, "tracking/pipeline.delivered.json")).get("run")
    if uri.startswith(("https://", "http://")) and isinstance(number, str) and number.isalnum():
        links["MLflow"] = f"{redact(uri).rstrip('/')}/#/runs/{number}"
    return links


async def read_object(store: RunStore, run: str, path: str) -> JsonObject:
    """Object in a JSON file of a run; empty if there is none or it is damaged."""
    content = await read_file(store, run, path)
    try:
        return plain_object(content) if content else {}
    except ValueError:
        return {}


async def read_file(store: RunStore, run: str, path: str) -> bytes | None:
    """A file of a run, by a path that cannot lead out of its folder.

    Raises:
        NotFound: the names are no plain ones.
    """
    return await asyncio.to_thread(store.read, run, _checked_path(run, path))


def _checked_path(run: str, path: str) -> str:
    check_name(run)
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
        raise NotFound(f"there is no {path!r} in {run}")
    return path


def check_name(run: str) -> None:
    """Check that a run's name is one folder's.

    Raises:
        NotFound: it is not.
    """
    try:
        check_run_name(run, "run")
    except UserError as error:
        raise NotFound(f"there is no run {run!r}") from error


async def _name_like(session: AsyncSession, name: str) -> str | None:
    """Name of the run that was meant: the last changed that begins with `name`, has it inside, or resembles it."""
    import difflib

    recent = select(Run.name).order_by(Run.changed.desc())
    if len(name) >= _SHORTEST_PART:
        for is_part in (Run.name.istartswith(name, autoescape=True), Run.name.icontains(name, autoescape=True)):
            if (alike := await session.scalar(recent.where(is_part).limit(1))) is not None:
                return alike
    names = (await session.scalars(recent.limit(200))).all()
    return next(iter(difflib.get_close_matches(name, names, n=1)), None)
