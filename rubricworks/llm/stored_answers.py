"""What an answer cache holds, looked at and read out from outside, also while a run writes to it.

Nothing here makes a cache, or leaves a file beside one: SQLite's read-only mode leaves an empty log behind, so readers
open the file for writing and forbid it to themselves. Reads go from id to id in short transactions: a slow reader never
keeps a run from folding its log in.
"""

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pydantic import BaseModel, ConfigDict
from pydantic_core import from_json, to_json

from rubricworks.errors import UserError
from rubricworks.llm.cache import CACHE_FILE, SCHEMA_VERSION
from rubricworks.storage.files import ASIDE_SUFFIX

PATIENCE_S = 10.0
"""How long to wait for a process that holds the file's lock; a run lets go after a few milliseconds."""
_ROWS_PER_LOOK = 200


class StoredAnswer(NamedTuple):
    """One row of a cache."""

    key: bytes
    model: str
    made: datetime
    raw: str
    prompt_tokens: int
    completion_tokens: int
    cost: float


class ModelFigures(BaseModel):
    """The answers of one model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    answers: int
    prompt_tokens: int
    completion_tokens: int
    cost: float
    """Dollars, when they were first asked."""
    mean_characters: float


class CacheFigures(BaseModel):
    """What `rubricworks cache stats --json` writes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    answers: int
    bytes: int
    """On disk, a run's log included."""
    free_bytes: int
    """Of these, in pages that hold nothing."""
    oldest: datetime | None
    newest: datetime | None
    models: tuple[ModelFigures, ...]
    """Most answers first."""


def cache_file(path: Path) -> Path:
    """The cache that a path means: the file itself, or the one in a run's folder.

    Raises:
        UserError: there is none.
    """
    if path.is_dir():
        if not (path / CACHE_FILE).is_file():
            raise UserError(f"{path} holds no {CACHE_FILE}; name a cache file or a run's folder")
        return path / CACHE_FILE
    if not path.exists():
        raise UserError(f"{path}: there is no such file or folder; name a cache file or a run's folder")
    return path


def stored_answers(path: Path) -> Iterator[StoredAnswer]:
    """Every answer that is there at the beginning, and still is when its turn comes.

    Raises:
        UserError: the file is no cache, was written by another version, or cannot be read.
    """
    with opened(path) as file:
        (end,) = file.execute("SELECT coalesce(max(id), 0) FROM answers").fetchone()
        last = -1
        look = "SELECT id, key, model, made, answer FROM answers WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
        while rows := file.execute(look, (last, end, _ROWS_PER_LOOK)).fetchall():
            for number, key, model, made, answer in rows:
                try:
                    stored = _stored(key, model, made, answer)
                except (ValueError, TypeError, OverflowError, OSError):
                    raise UserError(f"{path}: row {number} holds no answer of a client; delete that row") from None
                yield stored
            last = rows[-1][0]


def _stored(key: bytes, model: str, made: int, answer: str) -> StoredAnswer:
    raw, prompt_tokens, completion_tokens, cost = from_json(answer)
    when = datetime.fromtimestamp(made, UTC)
    return StoredAnswer(bytes(key), str(model), when, str(raw), int(prompt_tokens), int(completion_tokens), float(cost))


def cache_figures(path: Path) -> CacheFigures:
    """How much is kept, of which models. Raises as `stored_answers` does."""
    sums: dict[str, list[float]] = {}
    oldest = newest = None
    for answer in stored_answers(path):
        more = (1, answer.prompt_tokens, answer.completion_tokens, answer.cost, len(answer.raw))
        sums[answer.model] = [a + b for a, b in zip(sums.get(answer.model, [0] * 5), more, strict=True)]
        oldest = min(oldest or answer.made, answer.made)
        newest = max(newest or answer.made, answer.made)
    models = [
        ModelFigures(
            model=model,
            answers=int(answers),
            prompt_tokens=int(prompt),
            completion_tokens=int(completion),
            cost=cost,
            mean_characters=characters / answers,
        )
        for model, (answers, prompt, completion, cost, characters) in sums.items()
    ]
    with opened(path) as file:
        free = file.execute("PRAGMA freelist_count").fetchone()[0] * file.execute("PRAGMA page_size").fetchone()[0]
    return CacheFigures(
        answers=sum(one.answers for one in models),
        bytes=bytes_on_disk(path),
        free_bytes=free,
        oldest=oldest,
        newest=newest,
        models=tuple(sorted(models, key=lambda one: (-one.answers, one.model))),
    )


def export_answers(path: Path, out: Path) -> int:
    """Write the answers to a file, as `write_answers` does, and return how many; the file is there whole or not at all.

    Raises:
        UserError: as for `stored_answers`; also when `out` is the cache itself.
        OSError: the file cannot be written.
    """
    if out.exists() and out.samefile(path):
        raise UserError(f"{out} is the cache itself; choose another name for the export")
    aside = out.with_name(f".{out.name}.{secrets.token_hex(4)}{ASIDE_SUFFIX}")
    try:
        with aside.open("xb") as stream:
            count = write_answers(path, stream)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(out)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    return count


def write_answers(path: Path, stream: BinaryIO) -> int:
    """Write each answer as a line of JSON, and return how many there were."""
    count = 0
    for answer in stored_answers(path):
        stream.write(to_json({**answer._asdict(), "key": answer.key.hex()}) + b"\n")
        count += 1
    return count


def bytes_on_disk(path: Path) -> int:
    """Of the file, and of the log that a run has not folded into it yet."""
    try:
        log = log_of(path).stat().st_size
    except FileNotFoundError:  # a run may end at any moment
        log = 0
    return path.stat().st_size + log


def log_of(path: Path) -> Path:
    """SQLite's write-ahead log: there as long as any process has the cache open, or if the last one was killed."""
    return path.with_name(f"{path.name}-wal")


@contextmanager
def opened(path: Path, *, write: bool = False, patience_s: float = PATIENCE_S) -> Iterator[sqlite3.Connection]:
    """A connection to a cache. What SQLite complains of, also inside the block, becomes a UserError.

    Raises:
        UserError: as for `stored_answers`.
    """
    try:
        with closing(_connect(path, patience_s)) as file:
            _check(path, file)
            if not write:
                file.execute("PRAGMA query_only = ON")
            yield file
    except sqlite3.Error as error:
        raise _unusable(path, error, patience_s) from error


def _connect(path: Path, patience_s: float) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=rw"
    file = sqlite3.connect(uri, uri=True, timeout=patience_s, isolation_level=None)
    try:
        file.execute("SELECT 1 FROM sqlite_schema").fetchall()
    except sqlite3.OperationalError:
        file.close()
        if os.access(path.parent, os.W_OK) or log_of(path).exists():
            raise
        # Nobody has the file open, and no log can be made beside it: all there is stands in the file.
        file = sqlite3.connect(f"{uri.removesuffix('mode=rw')}immutable=1", uri=True, isolation_level=None)
    return file


def _check(path: Path, file: sqlite3.Connection) -> None:
    tables = {name for (name,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    (version,) = file.execute("PRAGMA user_version").fetchone()
    if "answers" not in tables or version == 0:
        raise UserError(f"{path} is no cache of answers; name a cache file or a run's folder")
    if version != SCHEMA_VERSION:
        raise UserError(f"the cache {path} was written by another version (schema {version}, here {SCHEMA_VERSION})")


def _unusable(path: Path, error: sqlite3.Error, patience_s: float) -> UserError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return UserError(f"{path} is no cache of answers; name a cache file or a run's folder")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return UserError(
            f"the cache {path} was locked for {patience_s:g} s by another process; try again, or stop that one first"
        )
    return UserError(f"the cache {path} cannot be used ({' '.join(str(error).split())}); make room or make it writable")
