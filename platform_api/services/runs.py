"""Runs: listing from the index; steps, logs and figures from their files."""

import asyncio
import json
import os
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.errors import UserError
from rubricworks.platform_api.db.tables import Run, Submission
from rubricworks.platform_api.problems import NotFound
from rubricworks.redaction import redact
from rubricworks.reports.rubric_audit import AUDIT_PAGE
from rubricworks.runs.run_name import check_run_name
from rubricworks.runs.store import RunStore

REPORT = "report.html"
_LOG_BYTES = 256 * 1024
_SHORTEST_PART = 3
"""Characters of a part of a name by which a run is known; a shorter part is in many names."""
_LARGEST = 1e100
"""Figure of a step beyond which sums and ticks of a chart are no numbers any more."""
_COUNTED_FOR = 5.0
_counts: WeakKeyDictionary[Engine, tuple[float, dict[str, int]]] = WeakKeyDictionary()
"""Database → time until which its counts hold, and the counts."""


class WrittenPages(NamedTuple):
    """Pages among a run's files."""

    report: bool
    audits: list[str]
    """Stages that audited rubrics (`rubric.audit`)."""


async def list_runs(
    session: AsyncSession,
    *,
    state: str | None,
    recipe: str | None,
    search: str | None,
    before: tuple[datetime, str] | None,
    limit: int,
) -> Sequence[Run]:
    """Runs, the last changed first."""
    query = select(Run).order_by(Run.changed.desc(), Run.name.desc()).limit(limit)
    if state is not None:
        query = query.where(Run.state == state)
    if recipe is not None:
        query = query.where(Run.recipe == recipe)
    if search:
        query = query.where(Run.name.contains(search, autoescape=True))
    if before is not None:
        query = query.where(tuple_(Run.changed, Run.name) < before)
    return (await session.scalars(query)).all()


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


async def read_steps(store: RunStore, run: str, stage: str, after: int) -> list[dict[str, Any]]:
    """Statistics of a training's steps after the given one, as it wrote them; figures that are not finite are null."""
    content = await read_file(store, run, f"{stage}/steps.jsonl")
    steps = []
    for line in (content or b"").splitlines():
        try:
            row = _STEPS.decode(line.decode())
        except ValueError:  # the last line may be half written
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int) and row["step"] > after:
            steps.append(row)
    return steps


def _finite(text: str) -> float | None:
    number = float(text)
    return number if abs(number) < _LARGEST else None


def _finite_integer(text: str) -> int | None:
    return int(text) if _finite(text) is not None else None


_STEPS = json.JSONDecoder(parse_float=_finite, parse_int=_finite_integer, parse_constant=_finite)


async def read_log(store: RunStore, run: str, stage: str) -> str:
    """End of a stage's log, without secrets.

    Raises:
        NotFound: the stage has no log.
    """
    found = await _read_log_end(store, run, stage, 0)
    if found is None:
        raise NotFound(f"{stage} of {run} has no log; runs on Kubeflow keep theirs there")
    return redact(found[0].decode(errors="replace"))


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
    found = await asyncio.to_thread(store.read_end, run, path, begin, _LOG_BYTES)
    if found is None or found[1] in (0, begin):
        return found
    cut = found[0].find(b"\n") + 1
    return found[0][cut:], found[1] + cut


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
    settings = await read_json(store, run, "tracking/settings.json")
    config = settings.get("config") if isinstance(settings, dict) else None
    uri = str((config or {}).get("uri") or os.environ.get("MLFLOW_TRACKING_URI", ""))
    delivered = await read_json(store, run, "tracking/pipeline.delivered.json")
    number = delivered.get("run") if isinstance(delivered, dict) else None
    if uri.startswith(("https://", "http://")) and isinstance(number, str) and number.isalnum():
        links["MLflow"] = f"{redact(uri).rstrip('/')}/#/runs/{number}"
    return links


async def read_json(store: RunStore, run: str, path: str) -> Any:
    """A JSON file of a run; None if there is none or it is damaged."""
    content = await read_file(store, run, path)
    try:
        return json.loads(content) if content is not None else None
    except ValueError:
        return None


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
            if (found := await session.scalar(recent.where(is_part).limit(1))) is not None:
                return found
    names = (await session.scalars(recent.limit(200))).all()
    return next(iter(difflib.get_close_matches(name, names, n=1)), None)
