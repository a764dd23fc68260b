"""Stages taken from another run instead of being made again, so that runs that differ in one thing share the rest.

A stage is taken if it is finished there and was made by the same version from the same: the digests of its
configuration and of its inputs are equal. It is copied, never linked, so that nothing done in one run can reach the
other; the copy is read whole before it counts. The other run's answers are taken along: what was asked there is not
asked again. What the environment fills in (addresses, model folders) is in no
digest and is taken to be the same, as it is when a run is continued.
"""

import hashlib
import json
import shutil
import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rubricworks.data.manifest import MANIFEST, read_manifest
from rubricworks.errors import UserError
from rubricworks.llm.cache import CACHE_FILE
from rubricworks.runtime.job import DONE, Job, content_digest, set_aside
from rubricworks.runtime.stage_table import NOT_REUSABLE
from rubricworks.storage import write_atomic

REUSE_FILE = "reuse.json"


def write_reuse(run: Path, sources: Sequence[Path]) -> None:
    """Name the runs that the stages of this one may be taken from, the first that fits; they stay named."""
    if not (run / CACHE_FILE).exists():
        _take_answers(run, sources)
    write_atomic(run / REUSE_FILE, json.dumps({"runs": [str(source.absolute()) for source in sources]}).encode())


def _take_answers(run: Path, sources: Sequence[Path]) -> None:
    """Begin with the answers that the first of the runs was given. A run that goes on meanwhile is copied as it was."""
    source = next((one / CACHE_FILE for one in sources if (one / CACHE_FILE).is_file()), None)
    if source is None:
        return
    aside = run / f".{CACHE_FILE}.aside"
    run.mkdir(parents=True, exist_ok=True)
    aside.unlink(missing_ok=True)
    try:
        # To look at a file with a write-ahead log SQLite makes another beside it; nothing may change there.
        alone = "" if source.with_name(f"{source.name}-wal").exists() else "&immutable=1"
        uri = f"{source.absolute().as_uri()}?mode=ro{alone}"
        with closing(sqlite3.connect(uri, uri=True)) as theirs, closing(sqlite3.connect(aside)) as ours:
            theirs.backup(ours)
        aside.rename(run / CACHE_FILE)
    except sqlite3.Error as error:
        raise UserError(f"{source}: cannot be copied ({error}); leave out --reuse, or remove that file") from error


def read_reuse(run: Path) -> list[Path]:
    """The runs that this one may take from; none by default."""
    path = run / REUSE_FILE
    if not path.is_file():
        return []
    try:
        return [Path(source) for source in json.loads(path.read_bytes())["runs"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not a list of runs; remove it, or name them again with --reuse") from error


def try_reuse(job: Job) -> bool:
    """Whether the stage was taken from another run; says from which, or why not.

    A stage without inputs reads what lies outside every run, which no digest names: it is always made here.
    """
    if not job.inputs or job.stage in NOT_REUSABLE:
        return False
    for source in read_reuse(job.run):
        reason = _difference(source / job.stage, job.made_by) or _take(source, job)
        told = f"not taken from {source.name}: {reason}" if reason else f"taken from {source.name}"
        print(told, file=sys.stderr, flush=True)
        if reason is None:
            return True
    return False


def _difference(folder: Path, made_by: dict[str, Any]) -> str | None:
    """What keeps the stage in that folder from being this one."""
    done = _read(folder / DONE)
    if done is None:
        return "it is not finished there"
    if done.get("version") != made_by["version"]:
        return f"it was made by version {done.get('version')}"
    if done.get("stage") != made_by["stage"] or done.get("config") != made_by["config"]:
        return "its configuration differs"
    theirs = done.get("inputs") or {}
    others = sorted(name for name in {*made_by["inputs"], *theirs} if made_by["inputs"].get(name) != theirs.get(name))
    return f"its input differs: {', '.join(others)}" if others else None


def _take(source: Path, job: Job) -> str | None:
    """Put a copy in the job's place; says what is wrong with it if it is not whole."""
    start = time.time()
    folder, copy = source / job.stage, job.scratch("reused")
    shutil.rmtree(copy, ignore_errors=True)
    try:
        shutil.copytree(folder, copy, symlinks=True)
        _give_own_copies(copy, source)
        done = (copy / DONE).read_bytes()
        if problem := _damage(copy, str(json.loads(done)["digest"])):
            return problem
        if _difference(folder, job.made_by):
            return "it was changed while it was copied"
    except (OSError, ValueError, KeyError, UserError) as error:
        return f"it cannot be copied ({' '.join(str(error).split())[:200]})"
    else:
        # Written anew: stages are shown in the order in which a run got them.
        write_atomic(copy / DONE, done)
        if len(list(job.out.iterdir())) > 1:
            set_aside(job.out, job.run)
        else:
            shutil.rmtree(job.out)
        copy.rename(job.out)
        job.note({**_figures(source, job.stage), "reused": source.name}, time.time() - start)
        return None
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _give_own_copies(copy: Path, source: Path) -> None:
    """A link into the other run (a best milestone) becomes what it leads to; others, such as a model's, stay."""
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
    for manifest in sorted(folder.rglob(MANIFEST)):
        for shard in read_manifest(manifest.parent).shards:
            path = manifest.parent / shard.name
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != shard.sha256:
                    return f"{path.relative_to(folder)} is damaged there"
    return None if content_digest(folder) == digest else "what it made was changed there"


def _figures(source: Path, stage: str) -> dict[str, Any]:
    """What the stage said of itself when it was made."""
    path = source / "ledger.jsonl"
    entries = [_parsed(line) for line in path.read_text().splitlines()] if path.is_file() else []
    of_stage = [entry for entry in entries if entry and entry.get("stage") == stage]
    return {key: value for key, value in (of_stage or [{}])[-1].items() if key not in ("stage", "seconds")}


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return _parsed(path.read_text())
    except OSError:
        return None


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
