"""Run state that several stages add to: stored per stage, and merged where a stage runs.

state/STAGE/ledger.jsonl     the stage's lines of the ledger
state/STAGE/spending.json    its rows of spending
state/STAGE/answers/…        model answers in immutable pieces, written every few seconds so that a killed attempt's
                             calls are not lost; an attempt that ends merges the small ones
state/STAGE/identities.json  what the models said of themselves, and their prompts
state/STAGE/error.json       the error of its last attempt
state/STAGE/progress.json    what it has done of all, see `runtime.progress`
state/STAGE/curves.jsonl     figures of its trainer, a line for each logging step
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path

from rubricworks.data.ledger import LEDGER_FILE
from rubricworks.errors import UserError
from rubricworks.llm import read_budget
from rubricworks.llm.cache import CACHE_FILE, AnswerCache, newest_answer_id, read_answers
from rubricworks.llm.identity import IDENTITY_FILE, merge_identities
from rubricworks.llm.spending import SPENDING_FILE, merge_spending, read_spending
from rubricworks.storage import Bucket, StoredObject

STATE = "state"
ERROR_FILE = "error.json"
PROGRESS_FILE = "progress.json"
CURVES_FILE = "curves.jsonl"
_ROWS_PER_PIECE = 4_000
_SMALL_BYTES = 8 << 20
_MAX_SMALL_PIECES = 16
_AT_ONCE = 8


class RunState:
    """The shared state of a run as one stage reads it at the start and adds to it while it runs."""

    def __init__(self, bucket: Bucket, run: Path, stage: str) -> None:
        """
        Args:
            bucket: the run in the store.
            run: its folder on this machine.
        """
        self._bucket, self._run, self._stage = bucket, run, stage
        self._own = bucket.below(STATE, stage)
        self._pushed: dict[str, bytes] = {}
        self._spending_etags: dict[str, str] = {}
        """Key of a stage's spending → ETag of the version already added."""
        self._last_answer = 0
        self._pieces = 0

    def fetch(self, *, whole: bool) -> None:
        """Merge the ledger, spending and this stage's answers into the run's folder.

        Args:
            whole: fetch the latest error of any stage too, for stages that report on the whole run.
        """
        state = self._bucket.below(STATE)
        errors, answers = [], False
        for item in sorted(state.objects(), key=lambda item: item.modified):
            stage, _, name = item.key.partition("/")
            if name == LEDGER_FILE:
                self._add_ledger_lines(state.read(item.key))
            elif name == "spending.json":
                self._add_spending(state, item.key, item.etag)
            elif name == IDENTITY_FILE:
                merge_identities(self._run / IDENTITY_FILE, state.read(item.key))
            elif name.startswith("answers/") and stage == self._stage:
                answers = True
            elif name == CURVES_FILE and stage == self._stage:
                curves = self._run / STATE / stage / CURVES_FILE
                curves.parent.mkdir(parents=True, exist_ok=True)
                curves.write_bytes(state.read(item.key))
            elif name == ERROR_FILE:
                errors.append(item.key)
        if errors and whole:
            (self._run / ERROR_FILE).write_bytes(state.read(errors[-1]))
        if answers:
            self._fetch_answers()
        self._last_answer = self._last_answer_id()

    def push(self, attempt: str) -> None:
        """Upload what was added since the last push.

        Args:
            attempt: name of this attempt of the stage.
        """
        self._push_answers(attempt)
        spending = [row for row in read_spending(self._run / SPENDING_FILE) if row["stage"] == self._stage]
        self._write_if_changed("spending.json", json.dumps(spending, sort_keys=True).encode() if spending else b"")
        self._write_if_changed(LEDGER_FILE, self._own_ledger_lines())
        identities = self._run / IDENTITY_FILE
        self._write_if_changed(IDENTITY_FILE, identities.read_bytes() if identities.is_file() else b"")
        for name in (PROGRESS_FILE, CURVES_FILE):
            file = self._run / STATE / self._stage / name
            self._write_if_changed(name, file.read_bytes() if file.is_file() else b"")

    def push_error(self) -> None:
        """Upload this stage's error, or delete that of an earlier attempt."""
        error = self._own_error()
        if error:
            self._own.write(ERROR_FILE, error)
        else:
            self._own.delete(ERROR_FILE)

    def fetch_spending(self) -> None:
        """Fetch the spending of other pods, if the run has a budget."""
        budget = read_budget(self._run)
        if budget.tokens is None and budget.dollars is None:
            return
        state = self._bucket.below(STATE)
        for stage in state.folders():
            for item in state.objects(f"{stage}/spending.json"):
                self._add_spending(state, item.key, item.etag)

    def merge_answers(self, attempt: str) -> None:
        """Merge many small pieces into few, since every later attempt reads them one by one."""
        small = [item for item in self._answer_pieces() if item.size < _SMALL_BYTES]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while len(small) > _MAX_SMALL_PIECES:
                sizes = accumulate(item.size for item in small)
                count = max(sum(size <= _SMALL_BYTES for size in sizes), 2)
                keys, small = [item.key for item in small[:count]], small[count:]
                # Concatenated gzip streams are a valid gzip stream.
                self._write_piece(attempt, b"".join(pool.map(self._own.read, keys)))
                list(pool.map(self._own.delete, keys))

    def _add_spending(self, state: Bucket, key: str, etag: str) -> None:
        if self._spending_etags.get(key) == etag:
            return
        merge_spending(self._run / SPENDING_FILE, _read_spending_rows(state, key))
        self._spending_etags[key] = etag

    def _write_if_changed(self, name: str, content: bytes) -> None:
        if content and self._pushed.get(name) != content:
            self._own.write(name, content)
            self._pushed[name] = content

    def _push_answers(self, attempt: str) -> None:
        path = self._run / CACHE_FILE
        if not path.is_file():
            return
        while rows := read_answers(path, after=self._last_answer, limit=_ROWS_PER_PIECE):
            lines = "".join(json.dumps(row[1:]) + "\n" for row in rows)
            self._write_piece(attempt, gzip.compress(lines.encode(), 5, mtime=0))
            self._last_answer = rows[-1][0]

    def _write_piece(self, attempt: str, content: bytes) -> None:
        self._own.write(f"answers/{attempt}-{self._pieces:05d}.jsonl.gz", content)
        self._pieces += 1

    def _answer_pieces(self) -> list[StoredObject]:
        return sorted(self._own.objects("answers/"), key=lambda item: item.modified)

    def _fetch_answers(self) -> None:
        try:
            self._cache_answers(self._read_pieces())
        except FileNotFoundError:  # another attempt has just merged the pieces
            self._cache_answers(self._read_pieces())

    def _read_pieces(self) -> Iterator[bytes]:
        keys = [item.key for item in self._answer_pieces()]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for start in range(0, len(keys), _AT_ONCE):
                yield from pool.map(self._own.read, keys[start : start + _AT_ONCE])

    def _cache_answers(self, pieces: Iterable[bytes]) -> None:
        cache = AnswerCache(self._run / CACHE_FILE)
        try:
            for piece in pieces:
                for line in gzip.decompress(piece).splitlines():
                    key, model, answer = json.loads(line)
                    cache.put(bytes.fromhex(key), model, answer)
        finally:
            cache.close()

    def _last_answer_id(self) -> int:
        path = self._run / CACHE_FILE
        return newest_answer_id(path) if path.is_file() else 0

    def _add_ledger_lines(self, content: bytes) -> None:
        path = self._run / LEDGER_FILE
        known_lines = set(path.read_bytes().splitlines()) if path.is_file() else set()
        with path.open("ab") as file:
            file.writelines(line + b"\n" for line in content.splitlines() if line not in known_lines)

    def _own_ledger_lines(self) -> bytes:
        path = self._run / LEDGER_FILE
        lines = path.read_bytes().splitlines() if path.is_file() else []
        return b"".join(line + b"\n" for line in lines if _stage_of(line) == self._stage)

    def _own_error(self) -> bytes:
        path = self._run / ERROR_FILE
        content = path.read_bytes() if path.is_file() else b""
        return content if content and _stage_of(content) == self._stage else b""


def _stage_of(line: bytes) -> str:
    try:
        return str(json.loads(line)["stage"])
    except (ValueError, KeyError, TypeError):
        return ""


def _read_spending_rows(bucket: Bucket, key: str) -> Iterable[dict[str, object]]:
    try:
        return list(json.loads(bucket.read(key)))
    except (ValueError, TypeError) as error:
        raise UserError(f"{bucket.uri}/{key}: not what a stage spent; delete it, which forgets that sum") from error
