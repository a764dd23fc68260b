"""Asking again what ended as dead letters: the shards that hold them are taken away, and a resumed run fills them.

A stage skips the shards that it has committed, and calls that were answered come from the cache, so only the failed
ones are asked and paid for. Stages after it run again, as their input changes.
"""

import json
from pathlib import Path

from rubricworks.data.manifest import MANIFEST, PLAN, read_manifest
from rubricworks.data.tables import shard_paths
from rubricworks.errors import UserError
from rubricworks.runs.folder_lock import lock_folder
from rubricworks.runtime.job import DONE
from rubricworks.runtime.stage_table import STAGES

LETTERS = "dead_letters"


def reopen_dead_letters(run: Path, stage: str) -> int:
    """Reopen a stage for its dead letters; return their number.

    Raises:
        UserError: the run is going, or the stage has none, or does not ask them by shards.
    """
    folder = run / stage
    if stage in STAGES and STAGES[stage].phase == "training":
        raise UserError(f"{stage} is a training: its rewards were given without these answers, and are not given again")
    if link := next((path for path in (folder, *folder.glob("*")) if path.is_symlink()), None):
        raise UserError(f"{link} is a link, which no stage that asks by shards makes; remove it")
    if not (folder / LETTERS / MANIFEST).is_file():
        raise UserError(f"{stage} of {run.name} has no finished table of dead letters")
    with lock_folder(run):
        letters = read_manifest(folder / LETTERS)
        plan = _plan(folder)
        if not (folder / MANIFEST).is_file() or plan != _plan(folder / LETTERS):
            raise UserError(
                f"{stage} does not ask by shards: delete {folder} and resume the run, to ask everything of it again"
            )
        tables = [folder, *(inner.parent for inner in sorted(folder.glob(f"*/{PLAN}")) if _plan(inner.parent) == plan)]
        reopened = {number for number, shard in enumerate(letters.shards) if shard.rows}
        shards = {table: shard_paths(table) for table in tables}
        if reopened:
            (folder / DONE).unlink(missing_ok=True)  # first: what is half reopened counts as unfinished
            for table in tables:
                (table / MANIFEST).unlink(missing_ok=True)
                for number, shard in enumerate(shards[table]):
                    if number in reopened:
                        shard.unlink(missing_ok=True)
    return letters.rows


def _plan(table: Path) -> tuple[object, object]:
    """Provenance and shard size of a table; tables of one pass have the same."""
    try:
        plan = json.loads((table / PLAN).read_bytes())
        return plan["made_by"], plan["shard_size"]
    except (OSError, ValueError, KeyError, TypeError):
        return table, None
