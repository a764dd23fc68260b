"""Batch API: requests that nobody waits for, sent as files at half the price.

Calls are collected until none has come for a moment, then sent as one batch of OpenAI's Batch API; each gets the row of
the output with its `custom_id`. The ids of batches lie beside the run's cache, so a killed run goes on waiting for
those that it has sent. A row that failed, or that is missing from an expired batch, is sent again a few times; then its
call fails like any other, and is never an answer.
"""

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.errors import UserError
from rubricworks.llm.answers import Answer, AnswerFailed, read_answer
from rubricworks.llm.answers.payload import find_error
from rubricworks.llm.endpoint import Endpoint
from rubricworks.llm.http.connections import Connections
from rubricworks.llm.question import ChatError
from rubricworks.llm.transport import PATIENCE_S, Completion, Transport
from rubricworks.rubrics import ErrorClass
from rubricworks.storage import write_atomic

STATE_FOLDER = "batches"
"""Folder beside the run's cache: a file for each batch, with the ids of its rows."""
POLL_S = 30.0
"""Time between two looks at a batch."""
_QUIET_S = 1.0
"""Time without a new call after which a batch is sent."""
_MAX_ROWS = 50_000
_MAX_BYTES = 190 * 2**20
"""OpenAI's limits for one batch, the second a little below."""
_ATTEMPTS = 3
_METADATA = "rubricworks_rows"
_TERMINAL = ("completed", "failed", "expired", "cancelled")


class _Failure(NamedTuple):
    """A row without an answer."""

    message: str
    status: int = 0
    raw: str = ""
    refused: bool = False
    """True if a content filter declined the request."""
    final: bool = False
    """True if another attempt cannot help, whatever the status."""

    @property
    def retry(self) -> bool:
        """Return True for a missing row, and for a server's error."""
        if self.refused or self.final:
            return False
        return self.status in (0, 408, 409, 429) or self.status >= 500


class BatchTransport(Transport):
    """Sender of requests to one endpoint in batches, from one event loop at a time."""

    def __init__(self, endpoint: Endpoint, state: Path | None, patience_s: float = PATIENCE_S) -> None:
        """
        Args:
            state: folder for the ids of batches; without one a killed run sends its requests again.
        """
        super().__init__(endpoint, patience_s=patience_s)
        self._state = state
        self._waiting: dict[str, tuple[bytes, asyncio.Future[Completion]]] = {}
        self._last_call = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._collector: asyncio.Task[None] | None = None
        self._closed = threading.Event()

    async def complete(self, body: bytes) -> Completion:
        loop = asyncio.get_running_loop()
        custom_id = hashlib.sha256(body).hexdigest()
        if custom_id not in self._waiting:
            self._waiting[custom_id] = (body, loop.create_future())
        self._last_call = loop.time()
        future = self._waiting[custom_id][1]
        if self._collector is None or self._collector.done():
            self._collector = asyncio.create_task(self._collect())
        return await asyncio.shield(future)

    async def close(self) -> None:
        self._closed.set()
        for task in (*self._tasks, *((self._collector,) if self._collector else ())):
            task.cancel()
        await super().close()

    async def _collect(self) -> None:
        """Send what is waiting, in as many batches as it needs, once no more comes."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            while len(self._waiting) < _MAX_ROWS:
                if (left := self._last_call + _QUIET_S - loop.time()) <= 0:
                    break
                await asyncio.sleep(left)
            rows: dict[str, tuple[bytes, asyncio.Future[Completion]]] = {}
            size = 0
            for custom_id, row in list(self._waiting.items()):
                if rows and (len(rows) == _MAX_ROWS or size + len(row[0]) > _MAX_BYTES):
                    break
                rows[custom_id] = self._waiting.pop(custom_id)
                size += len(row[0]) + 200
            task = asyncio.create_task(self._answer(rows))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, rows: dict[str, tuple[bytes, "asyncio.Future[Completion]"]]) -> None:
        left = {custom_id: body for custom_id, (body, _) in rows.items()}
        failures: dict[str, _Failure] = {}
        attempt = 0
        try:
            while left and attempt < _ATTEMPTS:
                attempt += 1
                for custom_id, result in (await asyncio.to_thread(self._run, left)).items():
                    if isinstance(result, Answer):
                        _settle(rows[custom_id][1], Completion(result, attempt))
                        del left[custom_id]
                        failures.pop(custom_id, None)
                        continue
                    failures[custom_id] = result
                    if not result.retry:
                        _settle(rows[custom_id][1], self._error(result, attempt))
                        del left[custom_id]
            for custom_id in left:
                _settle(rows[custom_id][1], self._error(failures[custom_id], attempt))
        except Exception as error:
            for _, future in rows.values():
                _settle(future, error)

    def _error(self, failure: _Failure, attempts: int) -> ChatError:
        message = f"{self._endpoint.label}: {self.connections.without_key(failure.message)}"
        error_class = ErrorClass.REFUSED if failure.refused else ErrorClass.TRANSPORT
        return ChatError(error_class, message, failure.raw, attempts, status=failure.status)

    def _run(self, bodies: Mapping[str, bytes]) -> dict[str, Answer | _Failure]:
        """Send the requests that no batch on its way has, wait for all, and return an outcome for each request."""
        client = self._client()
        import openai

        try:
            return self._outcomes(client, bodies)
        except openai.OpenAIError as error:
            failure = _Failure(str(error), getattr(error, "status_code", None) or 0)
            return dict.fromkeys(bodies, failure)

    def _outcomes(self, client: Any, bodies: Mapping[str, bytes]) -> dict[str, Answer | _Failure]:
        batches = self._sent(bodies)
        new = {custom_id: body for custom_id, body in bodies.items() if custom_id not in batches}
        if new:
            batches |= dict.fromkeys(new, self._submit(client, new))
        outcomes: dict[str, Answer | _Failure] = {}
        for batch_id in dict.fromkeys(batches.values()):
            mine = [custom_id for custom_id, of in batches.items() if of == batch_id]
            results = self._results(client, batch_id)
            missing = _Failure(f"batch {batch_id} ended as {results.status} without this row{results.errors}")
            outcomes |= {custom_id: results.rows.get(custom_id, missing) for custom_id in mine}
            self._forget(batch_id, [custom_id for custom_id in mine if isinstance(outcomes[custom_id], _Failure)])
        return outcomes

    def _client(self) -> Any:
        try:
            from openai import OpenAI
        except ImportError:
            raise UserError(
                'an endpoint with `batch` needs the openai package: pip install "rubricworks[batch]"'
            ) from None
        url = self._endpoint.connect_urls()[0]
        return OpenAI(
            base_url=str(url.with_query(None)),
            default_query=dict(url.query),
            api_key=self.connections.read_key() or "none",
            timeout=self._endpoint.timeout_s,
        )

    def _submit(self, client: Any, bodies: Mapping[str, bytes]) -> str:
        """Send one batch and return its id; one with the same rows that a killed run has just sent is taken over."""
        digest = hashlib.sha256("\n".join(sorted(bodies)).encode()).hexdigest()
        used = {path.stem for path in self._state.glob("*.json")} if self._state else set()
        for batch in client.batches.list(limit=100).data:
            if (batch.metadata or {}).get(_METADATA) == digest and batch.id not in used and batch.status != "failed":
                self._remember(batch.id, bodies)
                return str(batch.id)
        lines = b"".join(
            b'{"custom_id":"%s","method":"POST","url":"/v1/chat/completions","body":%s}\n' % (custom_id.encode(), body)
            for custom_id, body in bodies.items()
        )
        file = client.files.create(file=("requests.jsonl", lines), purpose="batch")
        batch = client.batches.create(
            input_file_id=file.id,
            endpoint="/v1/chat/completions",
            completion_window="24h",
            metadata={_METADATA: digest},
        )
        self._remember(batch.id, bodies)
        return str(batch.id)

    def _results(self, client: Any, batch_id: str) -> "_Results":
        import openai

        failing_since: float | None = None
        while True:
            try:
                batch = client.batches.retrieve(batch_id)
                failing_since = None
                if batch.status in _TERMINAL:
                    files = [file for file in (batch.output_file_id, batch.error_file_id) if file]
                    texts = [client.files.content(file).text for file in files]
                    errors = "; ".join(item.message or "" for item in (batch.errors.data or ())) if batch.errors else ""
                    return _Results(batch.status, _read_rows(texts, self.connections), f": {errors}" if errors else "")
            except (openai.APIConnectionError, openai.InternalServerError, openai.RateLimitError):
                failing_since = failing_since or time.monotonic()
                if time.monotonic() - failing_since > self._patience_s:
                    raise
            if self._closed.wait(POLL_S):
                raise UserError(f"stopped while batch {batch_id} was on its way; it is waited for when the run goes on")

    def _sent(self, custom_ids: Iterable[str]) -> dict[str, str]:
        """Row → batch that was sent with it and is not known to have failed it."""
        wanted, sent = set(custom_ids), dict[str, str]()
        for path in sorted(self._state.glob("*.json")) if self._state else ():
            sent |= dict.fromkeys(wanted.intersection(_read_ids(path)), path.stem)
        return sent

    def _remember(self, batch_id: str, custom_ids: Iterable[str]) -> None:
        if self._state:
            self._state.mkdir(parents=True, exist_ok=True)
            write_atomic(self._state / f"{batch_id}.json", json.dumps(sorted(custom_ids)).encode())

    def _forget(self, batch_id: str, custom_ids: Iterable[str]) -> None:
        """Strike rows that a batch gave no answer to, so that they are sent again."""
        path = self._state / f"{batch_id}.json" if self._state else None
        if path and path.is_file() and (failed := set(custom_ids)):
            self._remember(batch_id, _read_ids(path) - failed)


def _read_ids(path: Path) -> set[str]:
    """Rows that a batch was sent with, as its file says."""
    try:
        ids = json.loads(path.read_bytes())
        if not isinstance(ids, list) or not all(isinstance(row, str) for row in ids):
            raise ValueError("it is no list of rows")
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}); delete it, and its batch is sent again") from error
    return set(ids)


class _Results(NamedTuple):
    status: str
    rows: dict[str, Answer | _Failure]
    errors: str
    """Reasons of a batch that failed whole."""


def _settle(future: "asyncio.Future[Completion]", outcome: Completion | Exception) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _read_rows(files: Iterable[str], connections: Connections) -> dict[str, Answer | _Failure]:
    """Outcome of each row of the files, by its id; rows that are no JSON are missing."""

    def raw(line: str) -> str:
        return connections.without_key(line)[:2_000]

    rows: dict[str, Answer | _Failure] = {}
    for line in (line for file in files for line in file.splitlines() if line.strip()):
        try:
            row = json.loads(line)
            custom_id, response, error = str(row["custom_id"]), row.get("response") or {}, row.get("error")
            status, answer = int(response.get("status_code") or 0), response.get("body")
            inner = find_error(answer)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        if error or status != 200:
            details = error if isinstance(error, dict) else {"message": error}
            code = details.get("code") or f"HTTP {status}"
            message = details.get("message") or json.dumps(answer)[:300]
            refused = inner is not None and inner.refused
            rows[custom_id] = _Failure(f"{code}: {message}", status, raw(line), refused)
            continue
        try:
            rows[custom_id] = read_answer(connections.good_answer(json.dumps(answer).encode()))
        except AnswerFailed as error:
            rows[custom_id] = _Failure(str(error), error.status, raw(line), error.refused, not error.retry)
        except ValueError as error:
            rows[custom_id] = _Failure(str(error), 0, raw(line))
    return rows
