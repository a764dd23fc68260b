"""Deletion of one source's data everywhere, with a report: every run that holds it, and all traces of these runs.

A table names its content by a digest, and a model cannot unlearn a picture. So what goes is whole runs: those whose
samples or instructions come from the source, those whose recipe names it, and those that reuse any of these. With a run
go its folder (tables, images, caches, weights), its runs and versions at MLflow, and its rows in the database. A run
that is going, or a version that is a champion or a challenger, keeps everything from being deleted: end it first.
"""

import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from rubricworks.errors import UserError
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.services.run_rows import delete_rows
from rubricworks.runs.pruning import tracking_connection
from rubricworks.runs.records import RunRecord, run_record
from rubricworks.runs.store import RunStore
from rubricworks.runs.tables import TableFile
from rubricworks.storage.confined_files import UnreadableFile
from rubricworks.tracking.connection import Connection
from rubricworks.tracking.traces import Traces, delete_traces, find_traces

_TABLE = re.compile(r"(?:.*/)?(?P<kind>samples|instructions|rejected)/(?:.*/)?part-\d+\.parquet")


class HeldRun(NamedTuple):
    """A run that holds a source's data, and what it left at MLflow."""

    record: RunRecord
    reason: str
    connection: Connection | None
    traces: Traces


async def remove_source(store: RunStore, database: Database, source: str, *, dry_run: bool) -> AsyncIterator[str]:
    """Delete a source's data, and yield the report line by line.

    Args:
        source: the beginning of the places of its pictures, such as a folder or `s3://bucket/prefix`.
        dry_run: delete nothing.
    Raises:
        UserError: the source is too short to name one, a run is going, a version is in use, or a server is away.
    """
    if len(source.strip("/ ")) < 3:
        raise UserError(f"{source!r}: too short to name a source; write its folder or address")
    held = _held_runs(store, source)
    problems = [problem for run in held for problem in _problems(run)]
    if problems and not dry_run:
        raise UserError("; ".join(problems))
    for problem in problems:
        yield f"in the way: {problem}"
    verb = "would delete" if dry_run else "deleted"
    rows: Counter[str] = Counter()
    for run in held:
        name = run.record.name
        yield f"{verb} {name}: {run.reason}; {run.record.bytes:,} bytes in {run.record.uri}"
        for version in run.traces.versions:
            yield f"{verb} version {version.version} of {version.model}, from {name}"
        if run.traces.runs:
            yield f"{verb} {len(run.traces.runs)} runs at MLflow with their artifacts, of {name}"
        # The folder goes last: by it the next attempt finds what a kill left.
        if run.connection is not None and not dry_run:
            delete_traces(run.connection, run.traces)
        async with database.session() as session:
            rows += await delete_rows(session, name, dry_run=dry_run)
        if not dry_run:
            store.delete(name)
    for table, count in sorted(rows.items()):
        yield f"{verb} {count} rows of the table {table}"
    tracked = [tracked for run in held for tracked in run.traces.runs]
    if tracked and not dry_run:
        yield f"MLflow keeps their parameters until you run: mlflow gc --run-ids {','.join(tracked)}"
    yield f"{verb} {len(held)} runs that hold {source}"


def _held_runs(store: RunStore, source: str) -> Sequence[HeldRun]:
    records = [record for name in store.names() if (record := run_record(store, name)) is not None]
    reasons = {record.name: reason for record in records if (reason := _reason(store, record.name, source))}
    while more := {
        record.name: f"it takes from {next(name for name in record.reused_runs if name in reasons)}"
        for record in records
        if record.name not in reasons and any(name in reasons for name in record.reused_runs)
    }:
        reasons |= more
    held = []
    for record in records:
        if record.name in reasons:
            connection = tracking_connection(store, record)
            traces = find_traces(connection, record.name, record.tracking_key) if connection else Traces()
            held.append(HeldRun(record, reasons[record.name], connection, traces))
    return held


def _reason(store: RunStore, run: str, source: str) -> str:
    """Reason why a run holds the source; empty if it does not. An unreadable run counts as holding it."""
    try:
        names_it = _pattern(source)
        if names_it.search((store.read(run, "recipe.yaml") or b"").decode(errors="replace")):
            return "its recipe names the source"
        for path, file in store.files(run).items():
            if match := _TABLE.fullmatch(path):
                table = TableFile(store, run, path, file, file.size, match["kind"])
                places = table.columns(["source"])["source"].to_pylist()
                count = sum(isinstance(place, str) and bool(names_it.match(place)) for place in places)
                if count:
                    return f"{count} of its {match['kind']} come from the source"
    except UnreadableFile as error:
        raise UserError(f"{run} cannot be searched: {error}; mend or remove it first") from error
    return ""


def _pattern(source: str) -> re.Pattern[str]:
    """Matches the source and everything in it, but no other name with the same beginning."""
    return re.compile(re.escape(source) if source.endswith("/") else f"{re.escape(source)}(?![\\w.-])")


def _problems(run: HeldRun) -> list[str]:
    problems = [f"{run.record.name} is going: stop it"] if run.record.state == "going" else []
    return problems + [
        f"version {version.version} of {version.model}, the {' and '.join(version.aliases)}, came from "
        f"{run.record.name}: promote or roll back to another one"
        for version in run.traces.versions
        if version.aliases
    ]
