"""Spending ledger and budget of a run.

The ledger is a small SQLite file with a row per (stage, purpose, model). Every process of the run adds to it a few
times a second, so that a killed process loses at most its last fraction of a second. The budget caps the sum over all
rows: the maximal cost of a call is reserved before it is sent, and settled with the actual cost. Concurrent processes
may together exceed a cap by their reservations between two reads of the file.
"""

import asyncio
import math
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from rubricworks.errors import UserError
from rubricworks.llm.usage import Totals, Usage
from rubricworks.storage import write_atomic
from rubricworks.storage.sqlite_files import check_journal, read_only

SPENDING_FILE = "spending.sqlite"
BUDGET_FILE = "budget.json"
"""File names in a run's folder."""
_WRITE_INTERVAL_S = 0.25
_POLL_S = 0.05
_LOCK_TIMEOUT_S = 60.0
_KEY_COLUMNS = ("stage", "purpose", "model")
COUNTERS = ("calls", "cached", "requests", "prompt_tokens", "completion_tokens", "cost", "seconds", "cached_tokens")
_TABLES = (
    "CREATE TABLE IF NOT EXISTS spending (stage TEXT, purpose TEXT, model TEXT, "
    + ", ".join(f"{name} NUMERIC NOT NULL" for name in COUNTERS)
    + ", PRIMARY KEY (stage, purpose, model))",
    "CREATE TABLE IF NOT EXISTS failures (stage TEXT, purpose TEXT, model TEXT, class TEXT, count INTEGER NOT NULL, "
    "PRIMARY KEY (stage, purpose, model, class))",
)


class Budget(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """Caps on a run's spending, over all stages and attempts."""

    tokens: int | None = Field(default=None, ge=1, le=2**53)
    """Cap on prompt and completion tokens; none by default."""
    dollars: float | None = Field(default=None, gt=0)
    """Requires prices: `prices` of the endpoints, or the recipe's table of them."""


def read_budget(run: Path) -> Budget:
    """Read the caps of a run; without a file, there are none."""
    path = run / BUDGET_FILE
    try:
        return Budget.model_validate_json(path.read_bytes()) if path.exists() else Budget()
    except ValidationError as error:
        raise UserError(f"{path} is not a budget ({error.errors()[0]['msg']}); delete it and resume the run") from None


def write_budget(run: Path, budget: Budget) -> None:
    """Set the caps of a run, for stages that start later."""
    write_atomic(run / BUDGET_FILE, budget.model_dump_json().encode())


class BudgetReached(Exception):
    """The next call would exceed a cap, whatever the calls in flight cost."""


class Spending:
    """Ledger and budget of a run, as one process sees them."""

    def __init__(self, path: Path, stage: str, budget: Budget | None = None) -> None:
        self.stage = stage
        self.budget = budget or Budget()
        self.capped = self.budget.tokens is not None or self.budget.dollars is not None
        self._refusal = ""
        """Reason for refusing calls; empty before the first refusal."""
        self._path = path
        self._lock = threading.Lock()
        """Lock of the figures; never held while the file is written."""
        self._file_lock = threading.Lock()
        self._writer = ThreadPoolExecutor(1, "ledger")
        self._writing: Future[None] | None = None
        self._accounts: list[tuple[str, str, Totals, dict[str, object]]] = []
        """Purpose, model, the client's totals, and the totals already written to the file."""
        self._tokens, self._dollars = 0, 0.0
        """Spending of the whole run so far."""
        self._in_file = (0, 0.0)
        """The same sums as last read from the file."""
        self._reserved_tokens, self._reserved_dollars = 0, 0.0
        self._max_tokens = math.inf if self.budget.tokens is None else self.budget.tokens
        self._max_dollars = math.inf if self.budget.dollars is None else self.budget.dollars
        self._last_write = time.monotonic()
        check_journal(path)
        try:
            self._connection = sqlite3.connect(
                path, timeout=_LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA synchronous = NORMAL")
            _make_tables(self._connection)
            self._tokens, self._dollars = self._in_file = self._sum()
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def open_account(self, purpose: str, model: str, totals: Totals) -> None:
        """Record a client's totals under this purpose and model."""
        with self._lock:
            self._accounts.append((purpose, model, totals, Totals().as_dict()))

    def try_reserve(self, tokens: int, dollars: float, *, in_flight: bool = False) -> bool:
        """Reserve the maximal cost of a call if it fits under the caps, with all open reservations.

        Once a call was refused, no other begins: the stage stops as soon as those in flight are answered.

        Args:
            in_flight: it is the next turn of a call that has begun.
        """
        with self._lock:
            fits = (
                (in_flight or not self.exhausted)
                and self._tokens + self._reserved_tokens + tokens <= self._max_tokens
                and self._dollars + self._reserved_dollars + dollars <= self._max_dollars
            )
            if fits:
                self._reserved_tokens += tokens
                self._reserved_dollars += dollars
            return fits

    async def reserve(self, tokens: int, dollars: float) -> None:
        """Reserve the maximal cost of a call; waits while only the reservations of calls in flight prevent it.

        Raises:
            BudgetReached: the call does not fit under a cap, or an earlier one did not.
        """
        while not self.try_reserve(tokens, dollars):
            with self._lock:
                self._refusal = self._refusal or self._reason_to_refuse(tokens, dollars)
            if self.exhausted:
                raise BudgetReached(self._refusal)
            await asyncio.sleep(_POLL_S)

    def _reason_to_refuse(self, tokens: int, dollars: float) -> str:
        """Return which cap the call exceeds regardless of the calls in flight; empty if none."""
        if self._tokens + tokens > self._max_tokens:
            return f"the budget of {self._max_tokens:,} tokens does not cover the next call; {self._tokens:,} are spent"
        if self._dollars + dollars > self._max_dollars:
            return (
                f"the budget of ${self._max_dollars:,.2f} does not cover the next call; ${self._dollars:,.2f} are spent"
            )
        return ""

    def settle(self, tokens: int, dollars: float, usage: Usage) -> None:
        """Release a reservation and count the actual usage."""
        with self._lock:
            self._reserved_tokens -= tokens
            # Float sums leave a rounding residue that could block the last call; integer token counts do not.
            self._reserved_dollars = self._reserved_dollars - dollars if self._reserved_tokens else 0.0
            self._tokens += usage.tokens
            self._dollars += usage.cost

    async def wait_until_settled(self) -> None:
        """Wait until no reservation is open, so that no call is in flight, not even an abandoned one."""
        while self._reserved_tokens:  # noqa: ASYNC110  reservations are settled from several event loops
            await asyncio.sleep(_POLL_S)

    @property
    def exhausted(self) -> bool:
        """True once a call was refused."""
        return bool(self._refusal)

    @property
    def doubled_caps(self) -> str:
        """Command-line settings that double the caps."""
        caps = (("tokens", self.budget.tokens), ("dollars", self.budget.dollars))
        return " ".join(
            f"--set budget.{name}={2 * cap:g}" if name == "dollars" else f"--set budget.{name}={2 * cap}"
            for name, cap in caps
            if cap is not None
        )

    def write_if_due(self) -> None:
        """Have a thread write the ledger if the last write is long enough ago: a disk takes its time.

        Raises:
            UserError: the last write failed.
        """
        if time.monotonic() - self._last_write < _WRITE_INTERVAL_S:
            return
        if self._writing is not None:
            if not self._writing.done():
                return
            self._writing.result()
        self._last_write = time.monotonic()
        self._writing = self._writer.submit(self.write)

    def write(self) -> None:
        """Write new totals to the file, and read the spending of other processes."""
        with self._file_lock:
            self._last_write = time.monotonic()
            with self._lock:
                snapshot = [(*account[:3], account[2].as_dict()) for account in self._accounts]
                recorded = [account[3] for account in self._accounts]
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                tokens, dollars = self._sum()
                for (purpose, model, _, totals), before in zip(snapshot, recorded, strict=True):
                    if totals["calls"] != before["calls"]:
                        self._add((self.stage, purpose, model), totals, before)
                in_file = self._sum()
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise self._unusable(error) from error
            with self._lock:
                self._accounts[: len(snapshot)] = snapshot
                self._tokens += tokens - self._in_file[0]
                self._dollars += dollars - self._in_file[1]
                self._in_file = in_file

    def close(self) -> None:
        self._writer.shutdown()
        try:
            self.write()
        finally:
            self._connection.close()

    def _add(self, key: tuple[str, str, str], totals: dict[str, Any], recorded: dict[str, Any]) -> None:
        increments = [totals[name] - recorded[name] for name in COUNTERS]
        placeholders = ",".join("?" * (3 + len(increments)))
        sums = ", ".join(f"{name} = {name} + excluded.{name}" for name in COUNTERS)
        self._connection.execute(
            f"INSERT INTO spending VALUES ({placeholders}) ON CONFLICT (stage, purpose, model) DO UPDATE SET {sums}",
            (*key, *increments),
        )
        for error_class, count in totals["errors"].items():
            if added := count - recorded["errors"].get(error_class, 0):
                self._connection.execute(
                    "INSERT INTO failures VALUES (?,?,?,?,?) ON CONFLICT (stage, purpose, model, class) "
                    "DO UPDATE SET count = count + excluded.count",
                    (*key, error_class, added),
                )

    def _sum(self) -> tuple[int, float]:
        (row,) = self._connection.execute("SELECT total(prompt_tokens + completion_tokens), total(cost) FROM spending")
        return int(row[0]), row[1]

    def _unusable(self, error: Exception) -> UserError:
        return UserError(
            f"the ledger {self._path} cannot be written ({error}); make room or make it writable, and run again: "
            "what was committed is kept"
        )


def _make_tables(connection: sqlite3.Connection) -> None:
    for table in _TABLES:
        connection.execute(table)


def read_spending(path: Path) -> list[dict[str, Any]]:
    """Read the ledger's rows: stage, purpose, model and the figures of `Totals`; empty without a ledger.

    The file is left as it is. A resumed run rolls back incomplete writes of a killed process.
    """
    if not path.exists():
        return []
    columns = (*_KEY_COLUMNS, *COUNTERS)
    try:
        with read_only(path, "spending", "failures") as ledger:
            rows = ledger.execute(f"SELECT {', '.join(columns)} FROM spending ORDER BY rowid").fetchall()
            failures = ledger.execute("SELECT stage, purpose, model, class, count FROM failures").fetchall()
        _check_rows(rows, len(_KEY_COLUMNS))
        _check_rows(failures, len(_KEY_COLUMNS) + 1)
    except (sqlite3.Error, ValueError) as error:
        raise UserError(
            f"the ledger {path} cannot be read ({error}); what the run spent is not known before it is resumed"
        ) from error
    spending = [dict(zip(columns, row, strict=True)) for row in rows]
    for row in spending:
        key = (row["stage"], row["purpose"], row["model"])
        row["errors"] = {error_class: count for *columns, error_class, count in failures if tuple(columns) == key}
    return spending


def _check_rows(rows: Iterable[tuple[object, ...]], names: int) -> None:
    """Check that every row is so many names, and then figures: SQLite keeps whatever type is written.

    Raises:
        ValueError: it is not.
    """
    for row in rows:
        if not all(isinstance(name, str) for name in row[:names]):
            raise ValueError("a row lacks its stage, purpose or model")
        if not all(isinstance(figure, int | float) and 0 <= figure < math.inf for figure in row[names:]):
            raise ValueError(f"{' '.join(map(str, row[:names]))} has a figure that is no number")


def merge_spending(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Merge rows of other machines, as `read_spending` returns them, into a ledger, where running processes see them.

    A row is cumulative, so the larger of two rows is the later one. A missing ledger is created.

    Raises:
        UserError: the ledger cannot be written, or a row is invalid.
    """
    placeholders = ",".join("?" * (len(_KEY_COLUMNS) + len(COUNTERS)))
    updates = ", ".join(f"{name} = excluded.{name}" for name in COUNTERS)
    check_journal(path)
    try:
        with closing(sqlite3.connect(path, timeout=_LOCK_TIMEOUT_S, isolation_level=None)) as connection:
            _make_tables(connection)
            connection.execute("BEGIN IMMEDIATE")
            for row in rows:
                key = [row[name] for name in _KEY_COLUMNS]
                connection.execute(
                    f"INSERT INTO spending VALUES ({placeholders}) ON CONFLICT (stage, purpose, model) "
                    f"DO UPDATE SET {updates} WHERE excluded.calls > calls",
                    [*key, *(row[name] for name in COUNTERS)],
                )
                for error_class, count in row["errors"].items():
                    connection.execute(
                        "INSERT INTO failures VALUES (?,?,?,?,?) ON CONFLICT (stage, purpose, model, class) "
                        "DO UPDATE SET count = excluded.count WHERE excluded.count > count",
                        [*key, error_class, count],
                    )
            connection.execute("COMMIT")
    except (sqlite3.Error, KeyError, TypeError) as error:
        raise UserError(f"the ledger {path} cannot be brought up to what other machines spent ({error})") from error
