"""What several stages of a run add to at once, kept apart by stage in the store and put together where a stage runs.

state/STAGE/ledger.jsonl     the stage's lines of the ledger
state/STAGE/spending.json    its rows of what was spent
state/STAGE/answers/…        answers of models, in pieces that never change: a killed attempt's calls are not lost. They
                             come every few seconds; an attempt that ends puts many small ones together
state/STAGE/error.json       why its last attempt failed
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Any

from rubricworks.errors import UserError
from rubricworks.llm import read_budget
from rubricworks.llm.cache import CACHE_FILE, AnswerCache, newest_answer_id, read_answers
from rubricworks.llm.spending import SPENDING_FILE, add_spending, read_spending
from rubricworks.storage import Bucket, StoredObject

STATE = "state"
ERROR_FILE = "error.json"
LEDGER_FILE = "ledger.jsonl"
_ROWS_A_PIECE = 4_000
_SMALL_BYTES = 8 << 20
_FEW_PIECES = 16
_AT_ONCE = 8


class RunState:
    """One stage's part of it: what it takes up at the start, and what it keeps as it goes."""

    def __init__(self, bucket: Bucket, run: Path, stage: str) -> None:
        """
        Args:
            bucket: of the run.
            run: its folder here.
        """
        self._bucket, self._run, self._stage = bucket, run, stage
        self._own = bucket.below(STATE, stage)
        self._kept: dict[str, bytes] = {}
        self._seen: dict[str, str] = {}
        """Spending of other stages, by ETag."""
        self._last_answer = 0
        self._pieces = 0

    def fetch(self, *, whole: bool) -> None:
        """Put together what is known of the run so far.

        Args:
            whole: the errors of all stages too, for those that speak for the run.
        """
        state = self._bucket.below(STATE)
        errors, answers = [], False
        for found in sorted(state.objects(), key=lambda found: found.modified):
            stage, _, name = found.key.partition("/")
            if name == LEDGER_FILE:
                self._add_lines(state.read(found.key))
            elif name == "spending.json":
                self._take_spending(state, found.key, found.etag)
            elif name.startswith("answers/") and stage == self._stage:
                answers = True
            elif name == ERROR_FILE:
                errors.append(found.key)
        if errors and whole:
            (self._run / ERROR_FILE).write_bytes(state.read(errors[-1]))
        if answers:
            self._fetch_answers()
        self._last_answer = self._newest_answer()

    def push(self, attempt: str) -> None:
        """Keep what came since the last time.

        Args:
            attempt: names this attempt of the stage.
        """
        self._push_answers(attempt)
        spent = [row for row in read_spending(self._run / SPENDING_FILE) if row["stage"] == self._stage]
        self._keep("spending.json", json.dumps(spent, sort_keys=True).encode() if spent else b"")
        self._keep(LEDGER_FILE, self._own_lines())

    def push_error(self) -> None:
        """Keep this stage's error, or forget the one that an earlier attempt left."""
        error = self._error()
        if error:
            self._own.write(ERROR_FILE, error)
        else:
            self._own.delete(ERROR_FILE)

    def learn_spending(self) -> None:
        """Under a budget: what other pods have spent since."""
        budget = read_budget(self._run)
        if budget.tokens is None and budget.dollars is None:
            return
        state = self._bucket.below(STATE)
        for stage in state.folders():
            for found in state.objects(f"{stage}/spending.json"):
                self._take_spending(state, found.key, found.etag)

    def put_answers_together(self, attempt: str) -> None:
        """Make few pieces of many small ones, which every later attempt would have to read one by one."""
        small = [found for found in self._answers_there() if found.size < _SMALL_BYTES]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while len(small) > _FEW_PIECES:
                sizes = accumulate(found.size for found in small)
                count = max(sum(size <= _SMALL_BYTES for size in sizes), 2)
                keys, small = [found.key for found in small[:count]], small[count:]
                # Compressed streams in a row are one.
                self._write_piece(attempt, b"".join(pool.map(self._own.read, keys)))
                list(pool.map(self._own.delete, keys))

    def _take_spending(self, state: Bucket, key: str, etag: str) -> None:
        if self._seen.get(key) == etag:
            return
        add_spending(self._run / SPENDING_FILE, _json(state, key))
        self._seen[key] = etag

    def _keep(self, name: str, content: bytes) -> None:
        if content and self._kept.get(name) != content:
            self._own.write(name, content)
            self._kept[name] = content

    def _push_answers(self, attempt: str) -> None:
        path = self._run / CACHE_FILE
        if not path.is_file():
            return
        while rows := read_answers(path, after=self._last_answer, limit=_ROWS_A_PIECE):
            lines = "".join(json.dumps(row[1:]) + "\n" for row in rows)
            self._write_piece(attempt, gzip.compress(lines.encode(), 5, mtime=0))
            self._last_answer = rows[-1][0]

    def _write_piece(self, attempt: str, content: bytes) -> None:
        self._own.write(f"answers/{attempt}-{self._pieces:05d}.jsonl.gz", content)
        self._pieces += 1

    def _answers_there(self) -> list[StoredObject]:
        return sorted(self._own.objects("answers/"), key=lambda found: found.modified)

    def _fetch_answers(self) -> None:
        try:
            self._take_answers(self._read_pieces())
        except FileNotFoundError:  # an attempt that was cut off has just put them together
            self._take_answers(self._read_pieces())

    def _read_pieces(self) -> Iterator[bytes]:
        keys = [found.key for found in self._answers_there()]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for start in range(0, len(keys), _AT_ONCE):
                yield from pool.map(self._own.read, keys[start : start + _AT_ONCE])

    def _take_answers(self, pieces: Iterable[bytes]) -> None:
        cache = AnswerCache(self._run / CACHE_FILE)
        try:
            for piece in pieces:
                for line in gzip.decompress(piece).splitlines():
                    key, model, answer = json.loads(line)
                    cache.put(bytes.fromhex(key), model, answer)
        finally:
            cache.close()

    def _newest_answer(self) -> int:
        path = self._run / CACHE_FILE
        return newest_answer_id(path) if path.is_file() else 0

    def _add_lines(self, content: bytes) -> None:
        path = self._run / LEDGER_FILE
        there = set(path.read_bytes().splitlines()) if path.is_file() else set()
        with path.open("ab") as file:
            file.writelines(line + b"\n" for line in content.splitlines() if line not in there)

    def _own_lines(self) -> bytes:
        path = self._run / LEDGER_FILE
        lines = path.read_bytes().splitlines() if path.is_file() else []
        return b"".join(line + b"\n" for line in lines if _stage_of(line) == self._stage)

    def _error(self) -> bytes:
        path = self._run / ERROR_FILE
        content = path.read_bytes() if path.is_file() else b""
        return content if content and _stage_of(content) == self._stage else b""


def _stage_of(line: bytes) -> str:
    try:
        return str(json.loads(line)["stage"])
    except (ValueError, KeyError, TypeError):
        return ""


def _json(bucket: Bucket, key: str) -> Iterable[dict[str, Any]]:
    try:
        return list(json.loads(bucket.read(key)))
    except (ValueError, TypeError) as error:
        raise UserError(f"{bucket.uri}/{key}: not what a stage spent; delete it, which forgets that sum") from error
