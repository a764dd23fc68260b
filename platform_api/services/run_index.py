"""Index of runs and rollouts: follows committed files only.

A look lists the runs, reads the records of those that changed, and indexes each shard of rollouts and scorecards that
is committed and not indexed yet. A shard that was replaced, as a restarted training does, is indexed anew. Of samples
the index has the row group, and of every other table its manifest. Everything in the index can be dropped and built
again from the runs. What is wrong with a run's files stands in its own row: only a list of runs that fails means that
the storage is away.
"""

import asyncio
import logging
import math
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from sqlalchemy import delete, insert, or_, select, text
from sqlalchemy.exc import InterfaceError, OperationalError, ProgrammingError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoConnection
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.data.manifest import MANIFEST, Manifest
from rubricworks.errors import UserError
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.faults import describe_fault, fault_of
from rubricworks.platform_api.db.tables import (
    INDEX_VERSION,
    CriterionCredits,
    Rollout,
    RubricCriteria,
    Run,
    RunTable,
    RunTag,
    SampleFile,
    SamplePlace,
    Shard,
    Submission,
    utc_now,
)
from rubricworks.platform_api.services.indexed_rollouts import IndexedRollout, names_digest, read_shard, shard_path
from rubricworks.platform_api.services.run_results import read_results
from rubricworks.platform_api.services.submission.awaited_runs import AWAITED
from rubricworks.runs.records import RunRecord, is_going, record_of_fault, run_record
from rubricworks.runs.store import RunStore, StoredFile
from rubricworks.runs.tables import TableFile, UnreadableTable
from rubricworks.storage.confined_files import UnreadableFile
from rubricworks.storage.plain_json import plain_text

if TYPE_CHECKING:
    pass

_MANIFEST = f"/{MANIFEST}"
_SHARD = re.compile(r"(?P<stage>[\w-]+)/rollouts/part-(?P<number>\d{5})\.parquet")
_SAMPLES = re.compile(r"prepare\w*/samples/part-\d{5}\.parquet")
_LOCK = 7_278_364_102
"""Key of the lock under which one of several services indexes."""
_QUIET_AFTER = timedelta(hours=1)
_IN_TURN_FOR = 1.0
"""Seconds of each look for quiet runs in turn, most of them pauses: a small installation looks at all each time."""
_BETWEEN_LOOKS = 4
"""Pause after a look, and in it after each quiet run and each page of names, as a multiple of what it took: many runs
leave the service time to answer, and never keep the interpreter for long.
"""
_LONGEST_PAUSE = 30.0
_BETWEEN_LISTS = 12
"""Time from one list of all runs to the next, as a multiple of what a list takes: 100,000 in a bucket take some ten
seconds with their pauses. A new run is seen by the next one.
"""
_NAMES_AT_ONCE = 1_000
"""Names that are fetched from the database together: all of them would take four times the memory of their set."""
_AWAY = (OperationalError, InterfaceError, ProgrammingError, NoConnection, UserError, OSError)
"""Errors that every run would meet: the database or the storage is away, or the tables are not there yet."""
_log = logging.getLogger(__name__)


class RunIndex:
    """The index of one storage of runs.

    Args:
        on_change: called with the name of a run once what is new of it is indexed.
    """

    def __init__(
        self, database: Database, store: RunStore, on_change: Callable[[str], None] = lambda run: None
    ) -> None:
        self._database, self._store, self._on_change = database, store, on_change
        self._seen: dict[str, object] = {}
        """State of each run's files when it was last indexed."""
        self._quiet: set[str] = set()
        """Runs that are indexed, have ended, and have not changed for a while."""
        self._quiet_until = 0.0
        self._turn = 0
        self._paused = 0.0
        """Seconds of pauses within the look."""
        self._names: list[str] = []
        self._list_at = 0.0
        self._known: list[str] | None = None
        """Runs of the last look after which the index had those alone."""
        self.is_behind = False
        """True while the storage does not answer, so that the index may be out of date."""

    async def follow(self, seconds: float) -> None:
        """Look at the runs again and again, until cancelled."""
        while True:
            begin, self._paused = time.monotonic(), 0.0
            try:
                await self.look()
                self.is_behind = False
            except (SQLAlchemyError, UserError, OSError) as error:
                self.is_behind = not isinstance(error, SQLAlchemyError)
                _log.warning("runs could not be indexed: %s", describe_fault(error))
            except Exception:  # the next look must come
                _log.exception("indexing runs failed")
            took = time.monotonic() - begin - self._paused
            await asyncio.sleep(max(seconds, min(_BETWEEN_LOOKS * took, _LONGEST_PAUSE)))

    async def look(self) -> int:
        """Index what changed; return the number of runs that did."""
        names = await self._list()
        changed = 0
        async for name in self._due(names):
            files, is_written = await asyncio.to_thread(self._read_state, name)
            state = (len(files), max((file.modified for file in files.values()), default=None))
            if self._seen.get(name) == (*state, is_written):
                continue
            try:
                is_indexed = await self._index_run(name, files)
            except UnreadableFile as error:
                is_indexed = await self._index_fault(name, str(error))
            except _AWAY:
                raise
            except Exception as error:
                if fault_of(error) is not None:
                    raise
                _log.exception("%s could not be indexed", name)
                is_indexed = await self._index_fault(name, f"it cannot be indexed ({type(error).__name__})")
            if is_indexed:
                self._seen[name] = (*state, is_written)
                self._on_change(name)
                changed += 1
                is_quiet = not is_written and state[1] is not None and state[1] < utc_now() - _QUIET_AFTER
                (self._quiet.add if is_quiet else self._quiet.discard)(name)
        if names is not self._known:
            await self._forget(set(names))
            self._known = names
        return changed

    async def _list(self) -> list[str]:
        """All runs, listed anew if the last list is old enough."""
        begin = time.monotonic()
        if begin >= self._list_at:
            names = await asyncio.to_thread(self._store.names, _BETWEEN_LOOKS)
            self._names = self._names if names == self._names else names
            now = time.monotonic()
            self._list_at = now + _BETWEEN_LISTS * (now - begin)
        return self._names

    def _read_state(self, name: str) -> tuple[dict[str, StoredFile], bool]:
        files: dict[str, StoredFile] = {}
        try:
            files = self._store.files(name)
            return files, is_going(self._store, name, files)
        except UnreadableFile:  # the run's record says what it is
            return files, False

    async def _due(self, names: list[str]) -> AsyncIterator[str]:
        """Names to look at: new and recent runs, then quiet ones in turn for a moment."""
        if time.monotonic() >= self._quiet_until:
            query = select(Run.name).where(
                Run.state.not_in(("going", *AWAITED)), Run.changed < utc_now() - _QUIET_AFTER, Run.bytes > 0
            )
            async with self._database.session() as session:
                known = await session.stream_scalars(query.execution_options(yield_per=_NAMES_AT_ONCE))
                self._quiet = {name async for name in known}
            self._quiet_until = time.monotonic() + _QUIET_AFTER.total_seconds()
        quiet = [name for name in names if name in self._quiet]
        for name in names:
            if name not in self._quiet:
                yield name
        end = time.monotonic() + _IN_TURN_FOR
        begin = self._turn % max(1, len(quiet))
        for self._turn in range(begin, begin + len(quiet)):
            if time.monotonic() > end:
                break
            looked_at = time.monotonic()
            yield quiet[self._turn % len(quiet)]
            await self._rest(_BETWEEN_LOOKS * (time.monotonic() - looked_at))

    async def _rest(self, seconds: float) -> None:
        self._paused += seconds
        await asyncio.sleep(seconds)

    async def _index_run(self, name: str, files: dict[str, StoredFile]) -> bool:
        """Index what is new of a run, shard by shard: other writers wait for one at most, and none for the storage.

        How the run stands comes last: a page that stops following a run that has ended has all of its steps.
        """
        record = await asyncio.to_thread(run_record, self._store, name, files=files or None)
        if record is None:
            return False
        if record.fault:
            _log.warning("%s cannot be read in full: %s", name, record.fault)
        if not files:
            return await self._index_fault(name, record.fault)
        async with self._database.session() as session:
            known_tables = await session.scalars(select(RunTable).where(RunTable.run == name))
            tables = {table.path: table for table in known_tables}
            known_shards = await session.scalars(select(Shard).where(Shard.run == name))
            shards = {(shard.stage, shard.number): shard for shard in known_shards}
            known_files = await session.scalars(select(SampleFile).where(SampleFile.run == name))
            sample_files = {indexed.path: indexed for indexed in known_files}
        changed = await asyncio.to_thread(self._changed_tables, name, files, tables)
        results = await asyncio.to_thread(read_results, self._store, record, files)
        async with self._database.session() as session:
            if not await self._is_ours(session):
                return False
            known = await session.get(Run, name)
            if known is None:
                session.add(_row(record, {**await _copied_columns(session, name), "dollars": results.dollars}))
            elif known.state in AWAITED:
                known.state = record.state
            for table in changed:
                await session.merge(table)
            for path in tables:
                if f"{path}{_MANIFEST}" not in files:
                    await session.execute(delete(RunTable).where(RunTable.run == name, RunTable.path == path))
            for path in sample_files.keys() - files.keys():
                await session.execute(delete(SampleFile).where(SampleFile.run == name, SampleFile.path == path))
        for path, file in sorted(files.items()):
            if not _SAMPLES.fullmatch(path) or _is_of(sample_files.get(path), file):
                continue
            if not await self._index_samples(name, path, file):
                return False
        for path, file in sorted(files.items()):
            if (match := _SHARD.fullmatch(path)) is None:
                continue
            place = (match["stage"], int(match["number"]))
            if _is_of(shards.pop(place, None), file):
                continue
            is_graded = shard_path(place[0], "scorecards", place[1]) in files
            if not await self._index_shard(name, *place, file, is_graded=is_graded):
                return False
        async with self._database.session() as session:
            if not await self._is_ours(session):
                return False
            for shard in shards.values():
                await session.execute(delete(Shard).where(Shard.id == shard.id))
            await session.merge(_row(record, results._asdict()))
        return True

    async def _index_fault(self, name: str, fault: str) -> bool:
        """Write what is wrong with a run into its row, and keep everything else that is known of it."""
        async with self._database.session() as session:
            if not await self._is_ours(session):
                return False
            run = await session.get(Run, name)
            if run is None:
                record = record_of_fault(self._store, name, fault)
                session.add(run := _row(record, await _copied_columns(session, name)))
            run.fault = plain_text(fault)
        return True

    def _changed_tables(self, run: str, files: dict[str, StoredFile], known: dict[str, RunTable]) -> list[RunTable]:
        """Tables of a run with new manifests. Blocks."""
        changed = []
        for path, file in files.items():
            if not path.endswith(_MANIFEST):
                continue
            folder = path.removesuffix(_MANIFEST)
            if folder in known and known[folder].modified == file.modified:
                continue
            try:
                manifest = Manifest.model_validate_json(self._store.read(run, path) or b"")
            except ValidationError:
                continue  # of something else, or gone
            if not (_is_storable(RunTable.path, folder) and _is_storable(RunTable.kind, manifest.table)):
                continue
            shards = [shard.model_dump() for shard in manifest.shards]
            values = {"kind": manifest.table, "rows": manifest.rows, "shards": shards, "modified": file.modified}
            changed.append(RunTable(run=run, path=folder, **values))
        return changed

    async def _index_samples(self, run: str, path: str, file: StoredFile) -> bool:
        """Index the samples of a file; return False if another service is indexing."""
        samples = TableFile(self._store, run, path, file, ranged_size=file.size, kind="samples")
        try:
            places = await asyncio.to_thread(samples.sample_places)
        except UnreadableTable as error:
            _log.warning("%s", error)
            places = {}
        async with self._database.session() as session:
            if not await self._is_ours(session):
                return False
            await session.execute(delete(SampleFile).where(SampleFile.run == run, SampleFile.path == path))
            indexed = SampleFile(run=run, path=path, size=file.size, modified=file.modified)
            session.add(indexed)
            await session.flush()
            rows = [
                {
                    "file_id": indexed.id,
                    "sample_id": sample_id,
                    "row_group": group,
                    "file_name": plain_text(file_name)[-SamplePlace.file_name.type.length :],
                }
                for sample_id, (group, file_name) in places.items()
                if _is_storable(SamplePlace.sample_id, sample_id)
            ]
            if rows:
                await session.execute(insert(SamplePlace), rows)
        return True

    async def _index_shard(self, run: str, stage: str, number: int, file: StoredFile, *, is_graded: bool) -> bool:
        """Index a shard in place of the one that it replaces; return False if another service is indexing."""
        rows = await asyncio.to_thread(read_shard, self._store, run, stage, number, file, is_graded=is_graded)
        async with self._database.session() as session:
            if not await self._is_ours(session):
                return False
            place = (Shard.run == run, Shard.stage == stage, Shard.number == number)
            known = await session.scalar(select(Shard).where(*place))
            if not _is_of(known, file):  # nor has another service indexed it meanwhile
                await session.execute(delete(Shard).where(*place))
                if rows is not None:
                    await _add_shard(session, rows, run, stage, number, file)
        return True

    async def _forget(self, names: set[str]) -> None:
        """Drop runs that were deleted; one that was submitted and has written nothing yet has no folder."""
        gone = set(self._seen) - names
        async with self._database.session() as session:
            query = select(Run.name).where(or_(Run.bytes > 0, Run.fault != ""))
            known = await session.stream_scalars(query.execution_options(yield_per=_NAMES_AT_ONCE))
            gone |= {name async for name in known if name not in names}
            for name in gone:
                await session.execute(delete(Shard).where(Shard.run == name))
                await session.execute(delete(RunTable).where(RunTable.run == name))
                await session.execute(delete(SampleFile).where(SampleFile.run == name))
                await session.execute(delete(Run).where(Run.name == name))
                self._seen.pop(name, None)

    async def _is_ours(self, session: AsyncSession) -> bool:
        if self._database.is_sqlite:
            return True
        return bool(await session.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _LOCK}))


async def _add_shard(
    session: AsyncSession, rows: list[IndexedRollout], run: str, stage: str, number: int, file: StoredFile
) -> None:
    shard = Shard(run=run, stage=stage, number=number, rows=len(rows), size=file.size, modified=file.modified)
    session.add(shard)
    await session.flush()
    criteria: dict[str, list[str]] = {}
    values = []
    for position, row in enumerate(rows):
        if not _is_storable(Rollout.sample_id, row.sample_id):
            continue
        digest = names_digest(row.card.names) if row.card else None
        if row.card and digest:
            criteria[digest] = row.card.names
        place = {"shard_id": shard.id, "row": position, "run": run, "stage": stage, "criteria": digest}
        numbers = {"step": row.step, "sample_id": row.sample_id, "reward": row.reward, "advantage": row.advantage}
        numbers["tokens"] = row.tokens
        values.append({**place, **numbers, "credits": row.card.credits if row.card else None})
    known = set(await session.scalars(select(RubricCriteria.digest).where(RubricCriteria.digest.in_(list(criteria)))))
    new = [{"digest": digest, "names": names} for digest, names in criteria.items() if digest not in known]
    if new:
        await session.execute(insert(RubricCriteria), new)
    if values:
        await session.execute(insert(Rollout), values)
    credits: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, credit in zip(row.card.names, row.card.credits, strict=True) if row.card else ():
            if credit is not None:
                credits[name].append(credit)
    if credits:
        session.add_all(_credit_sums(shard.id, name, of_name) for name, of_name in credits.items())
        await session.flush()


def _is_of(indexed: Shard | SampleFile | None, file: StoredFile) -> bool:
    """Return True if rows were indexed from this very file, as this version indexes it."""
    return indexed is not None and (indexed.size, indexed.modified, indexed.index_version) == (
        file.size,
        file.modified,
        INDEX_VERSION,
    )


def _credit_sums(shard: int, criterion: str, credits: list[float]) -> CriterionCredits:
    return CriterionCredits(
        shard_id=shard,
        digest=names_digest([criterion]),
        criterion=criterion,
        graded=len(credits),
        total=math.fsum(credits),
        squares=math.fsum(credit * credit for credit in credits),
        lowest=min(credits),
        highest=max(credits),
    )


async def _copied_columns(session: AsyncSession, run: str) -> dict[str, str | None]:
    """Columns of a new row that other tables hold."""
    tags = await session.scalars(select(RunTag.tag).where(RunTag.run == run).order_by(RunTag.tag))
    owner = await session.scalar(select(Submission.submitted_by).where(Submission.run == run))
    return {"owner": owner, "tags": ", ".join(tags) or None}


def _row(record: RunRecord, columns: Mapping[str, object]) -> Run:
    """Row of a run; columns that are not given stay as they are."""
    return Run(
        **columns,
        name=record.name,
        state=record.state,
        recipe=plain_text(record.recipe)[: _length(Run.recipe)],
        pipeline=plain_text(record.pipeline)[: _length(Run.pipeline)],
        started=record.started,
        changed=record.changed,
        bytes=record.bytes,
        message=plain_text(record.message),
        stages=[stage.model_dump(mode="json") for stage in record.stages],
        progress=[stage.model_dump(mode="json") for stage in record.progress],
        simulated=record.simulated,
        fault=plain_text(record.fault),
    )


def _is_storable(column: Any, name: object) -> bool:
    """Return True if a name fits its column; a cut name would not identify anything."""
    return isinstance(name, str) and len(name) <= _length(column) and plain_text(name) == name


def _length(column: Any) -> int:
    length: int = column.type.length
    return length
