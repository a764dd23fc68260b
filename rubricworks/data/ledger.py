"""Ledger of a run: a line for each stage that ended, with its figures, its seconds and the time of its end.

Times are read from here, because the dates of files change when a run is copied.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rubricworks.storage.plain_json import plain_object

LEDGER_FILE = "ledger.jsonl"
Entry = Mapping[str, Any]


def parse_ledger(content: bytes) -> list[dict[str, Any]]:
    """The lines in order; one that a kill truncated, or that names no stage, is skipped."""
    entries = []
    for line in content.splitlines():
        try:
            entry = plain_object(line)
        except ValueError:
            continue
        if "stage" in entry:
            entries.append(entry)
    return entries


def read_ledger(run: Path) -> list[dict[str, Any]]:
    """The ledger of a run's folder; empty without one."""
    path = run / LEDGER_FILE
    return parse_ledger(path.read_bytes()) if path.is_file() else []


def stage_ends(entries: Iterable[Entry]) -> dict[str, datetime]:
    """Stage → time of its last end, in the order of the first ends."""
    return {str(entry["stage"]): end for entry in entries if (end := _end(entry)) is not None}


def first_start(entries: Iterable[Entry]) -> datetime | None:
    """Time at which the first stage began; None if no line has a time."""
    starts = []
    for entry in entries:
        seconds, end = entry.get("seconds"), _end(entry)
        if end is not None and isinstance(seconds, int | float) and 0 <= seconds < _LONGEST:
            starts.append(end - timedelta(seconds=seconds))
    return min(starts, default=None)


def last_change(run: Path) -> datetime:
    """Time at which a run's last stage ended; if the ledger has no time, the latest modification of its ledger and
    recipe files.
    """
    if ends := stage_ends(read_ledger(run)):
        return max(ends.values())
    files = [path for path in (run / LEDGER_FILE, run / "recipe.yaml") if path.is_file()]
    return datetime.fromtimestamp(max((path.stat().st_mtime for path in files), default=0.0), UTC)


_LONGEST = 10 * 366 * 24 * 3600
"""Seconds of a stage that can be meant."""


def _end(entry: Entry) -> datetime | None:
    try:
        end = datetime.fromisoformat(str(entry["ended"]))
    except (KeyError, ValueError):
        return None
    return end if end.tzinfo and 1970 < end.year < 9000 else None
