"""Reuse of finished stages from other runs, so that runs that differ in one field share the rest.

A finished stage is reused if its version, config digest and input digests match. It is copied, never linked, so that
the runs stay independent, and the copy's digests are verified before it counts. The other run's answer cache is copied
too. Values that the environment fills in (addresses, model folders) are in no digest and are assumed equal, as when a
run is continued.
"""

import hashlib
import json
import shutil
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rubricworks.data.ledger import read_ledger
from rubricworks.data.manifest import MANIFEST, read_manifest
from rubricworks.data.response_images import IMAGES, ResponseImages
from rubricworks.errors import UserError
from rubricworks.llm.cache import CACHE_FILE
from rubricworks.runtime.job import DONE, Job, content_digest, set_aside
from rubricworks.runtime.stage_table import NOT_REUSABLE
from rubricworks.storage import write_atomic
from rubricworks.terminal import say

REUSE_FILE = "reuse.json"
SOURCE = "source"
"""Key, among a configuration's `versions`, of the digest of all that its stage reads outside the run."""


def write_reuse(run: Path, sources: Sequence[Path]) -> None:
    """Record the runs whose stages this run may reuse, in order of preference, and copy an answer cache."""
    if not (run / CACHE_FILE).exists():
        _copy_answer_cache(run, sources)
    write_atomic(run / REUSE_FILE, json.dumps({"runs": [str(source.absolute()) for source in sources]}).encode())


def _copy_answer_cache(run: Path, sources: Sequence[Path]) -> None:
    """Copy the first cache among the source runs. A run still in progress is copied as a consistent snapshot."""
    source = next((path / CACHE_FILE for path in sources if (path / CACHE_FILE).is_file()), None)
    if source is None:
        return
    partial = run / f".{CACHE_FILE}.aside"
    run.mkdir(parents=True, exist_ok=True)
    partial.unlink(missing_ok=True)
    try:
        # Opening a database in WAL mode creates files beside it; a source without a log is opened as immutable.
        immutable = "" if source.with_name(f"{source.name}-wal").exists() else "&immutable=1"
        uri = f"{source.absolute().as_uri()}?mode=ro{immutable}"
        with closing(sqlite3.connect(uri, uri=True)) as source_db, closing(sqlite3.connect(partial)) as copy_db:
            source_db.backup(copy_db)
        partial.rename(run / CACHE_FILE)
    except sqlite3.Error as error:
        raise UserError(f"{source}: cannot be copied ({error}); leave out --reuse, or remove that file") from error


def read_reuse(run: Path) -> list[Path]:
    """Return the runs whose stages this run may reuse; none by default."""
    path = run / REUSE_FILE
    if not path.is_file():
        return []
    try:
        return [Path(source) for source in json.loads(path.read_bytes())["runs"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not a list of runs; remove it, or name them again with --reuse") from error


def try_reuse(job: Job) -> bool:
    """Copy the stage from the first run whose output matches, and return True; print the source or the reason.

    A stage without inputs reads sources outside every run. It is reused only if its configuration gives their digest.
    """
    covered = job.inputs or SOURCE in job.made_by.get("versions", {})
    if not covered or job.stage in NOT_REUSABLE:
        return False
    for source in read_reuse(job.run):
        reason = _difference(source / job.stage, job.made_by) or _copy_stage(source, job)
        message = f"not taken from {source.name}: {reason}" if reason else f"taken from {source.name}"
        say(message)
        if reason is None:
            return True
    return False


def _difference(folder: Path, made_by: dict[str, Any]) -> str | None:
    """Return why the stage in that folder does not match this one; None if it does."""
    done = _read_object(folder / DONE)
    if done is None:
        return "it is not finished there"
    if done.get("version") != made_by["version"]:
        return f"it was made by version {done.get('version')}"
    if done.get("stage") != made_by["stage"] or done.get("config") != made_by["config"]:
        return "its configuration differs"
    versions, source_versions = made_by.get("versions") or {}, done.get("versions") or {}
    if other := sorted(
        name for name in {*versions, *source_versions} if versions.get(name) != source_versions.get(name)
    ):
        return f"what it was made with differs: {', '.join(other)}"
    inputs, source_inputs = made_by["inputs"], done.get("inputs") or {}
    changed = sorted(name for name in {*inputs, *source_inputs} if inputs.get(name) != source_inputs.get(name))
    return f"its input differs: {', '.join(changed)}" if changed else None


def _copy_stage(source: Path, job: Job) -> str | None:
    """Replace the job's output by a verified copy; return what is wrong if it cannot be."""
    start = time.time()
    folder, copy = source / job.stage, job.scratch("reused")
    shutil.rmtree(copy, ignore_errors=True)
    try:
        shutil.copytree(folder, copy, symlinks=True)
        _copy_linked_files(copy, source)
        done = (copy / DONE).read_bytes()
        if problem := _damage(copy, str(json.loads(done)["digest"])):
            return problem
        if _difference(folder, job.made_by):
            return "it was changed while it was copied"
    except (OSError, ValueError, KeyError, UserError) as error:
        return f"it cannot be copied ({' '.join(str(error).split())[:200]})"
    else:
        # Rewritten for its time: stages are listed in the order in which the run got them.
        write_atomic(copy / DONE, done)
        if len(list(job.out.iterdir())) > 1:
            set_aside(job.out, job.run)
        else:
            shutil.rmtree(job.out)
        copy.rename(job.out)
        job.write_ledger_line({**_figures(source, job.stage), "reused": source.name}, time.time() - start)
        return None
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _copy_linked_files(copy: Path, source: Path) -> None:
    """Replace links into the source run (a best milestone) by copies; keep other links, such as a model's."""
    root = source.resolve()
    for link in [path for path in copy.rglob("*") if path.is_symlink()]:
        target = link.resolve(strict=True)
        if target.is_relative_to(root):
            link.unlink()
            if target.is_dir():
                shutil.copytree(target, link)
            else:
                shutil.copyfile(target, link)


def _damage(folder: Path, digest: str) -> str | None:
    """Return what is damaged in a copied stage; None if all digests match."""
    for manifest in sorted(folder.rglob(MANIFEST)):
        for shard in read_manifest(manifest.parent).shards:
            path = manifest.parent / shard.name
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != shard.sha256:
                    return f"{path.relative_to(folder)} is damaged there"
    if image := ResponseImages(folder / IMAGES).damaged():
        return f"{image.relative_to(folder)} is damaged there"
    return None if content_digest(folder) == digest else "what it made was changed there"


def _figures(source: Path, stage: str) -> dict[str, Any]:
    """Return the figures of the stage's last ledger line in the source run."""
    stage_entries = [entry for entry in read_ledger(source) if entry["stage"] == stage]
    last = stage_entries[-1] if stage_entries else {}
    return {key: value for key, value in last.items() if key not in ("stage", "seconds", "ended")}


def _read_object(path: Path) -> dict[str, Any] | None:
    try:
        return _parse_object(path.read_text())
    except OSError:
        return None


def _parse_object(text: str) -> dict[str, object] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
