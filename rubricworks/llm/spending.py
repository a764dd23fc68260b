"""What a run has spent, on what, and how much it still may: the ledger of calls and the budget over it.

The ledger is a small SQLite file with a row for each (stage, purpose, model), which every process of the run adds to a
few times a second; so what a killed process had spent still counts, but for its last moment. The budget caps the sum
over all of them: what a call may cost at most is reserved before it is sent and settled by what it did cost. Processes
that spend at the same time may together exceed a cap by what each reserves between two looks at the file.
"""

import asyncio
import math
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rubricworks.errors import UserError
from rubricworks.llm.usage import Totals, Usage
from rubricworks.storage import write_atomic

SPENDING_FILE = "spending.sqlite"
BUDGET_FILE = "budget.json"
"""Their names in a run's folder."""
_WRITE_EVERY_S = 0.25
_LOOK_AGAIN_S = 0.05
_LOCK_TIMEOUT_S = 60.0
_KEY = ("stage", "purpose", "model")
COUNTED = ("calls", "cached", "requests", "prompt_tokens", "completion_tokens", "cost", "seconds")
_TABLES = (
    "CREATE TABLE IF NOT EXISTS spending (stage TEXT, purpose TEXT, model TEXT, "
    + ", ".join(f"{name} NUMERIC NOT NULL" for name in COUNTED)
    + ", PRIMARY KEY (stage, purpose, model))",
    "CREATE TABLE IF NOT EXISTS failures (stage TEXT, purpose TEXT, model TEXT, class TEXT, count INTEGER NOT NULL, "
    "PRIMARY KEY (stage, purpose, model, class))",
)


class Budget(BaseModel):
    """Caps on what a run may spend, over all its stages and attempts."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    tokens: int | None = Field(default=None, ge=1)
    dollars: float | None = Field(default=None, gt=0)
    """Needs prices: `price_in` and `price_out` of the endpoints, or the recipe's table."""


def read_budget(run: Path) -> Budget:
    """The caps of a run; none if nobody set any."""
    path = run / BUDGET_FILE
    try:
        return Budget.model_validate_json(path.read_bytes()) if path.exists() else Budget()
    except ValidationError as error:
        raise UserError(f"{path} is not a budget ({error.errors()[0]['msg']}); delete it and resume the run") from None


def write_budget(run: Path, budget: Budget) -> None:
    """Set the caps of a run, for the stages that start from now on."""
    write_atomic(run / BUDGET_FILE, budget.model_dump_json().encode())


class BudgetReached(Exception):
    """The next call would exceed a cap, whatever those in flight turn out to cost."""


class Spending:
    """One process's part of a run's spending."""

    def __init__(self, path: Path, stage: str, budget: Budget | None = None) -> None:
        self.stage = stage
        self.budget = budget or Budget()
        self.capped = self.budget.tokens is not None or self.budget.dollars is not None
        self.exhausted = False
        """Whether a call was turned down."""
        self._path = path
        self._lock = threading.Lock()
        self._accounts: list[tuple[str, str, Totals, dict[str, Any]]] = []
        """Purpose, model, what its client counts, and what of that the file has."""
        self._tokens, self._dollars = 0, 0.0
        """Spent so far, by all of the run."""
        self._in_file = (0, 0.0)
        """The same, as the file had it when we last looked."""
        self._reserved_tokens, self._reserved_dollars = 0, 0.0
        self._most_tokens = math.inf if self.budget.tokens is None else self.budget.tokens
        self._most_dollars = math.inf if self.budget.dollars is None else self.budget.dollars
        self._written = time.monotonic()
        try:
            self._file = sqlite3.connect(path, timeout=_LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False)
            self._file.execute("PRAGMA synchronous = NORMAL")
            for table in _TABLES:
                self._file.execute(table)
            self._tokens, self._dollars = self._in_file = self._sum()
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def open_account(self, purpose: str, model: str, totals: Totals) -> None:
        """Let a client's totals be written under this purpose and model."""
        with self._lock:
            self._accounts.append((purpose, model, totals, Totals().as_dict()))

    def reserve_at_once(self, tokens: int, dollars: float) -> bool:
        """Set aside what a call may cost at most, if it fits beside all that is reserved already."""
        with self._lock:
            fits = (
                self._tokens + self._reserved_tokens + tokens <= self._most_tokens
                and self._dollars + self._reserved_dollars + dollars <= self._most_dollars
            )
            if fits:
                self._reserved_tokens += tokens
                self._reserved_dollars += dollars
            return fits

    async def reserve(self, tokens: int, dollars: float) -> None:
        """Set aside what a call may cost at most; waits while only calls in flight stand in the way.

        Raises:
            BudgetReached: it does not fit under a cap.
        """
        while not self.reserve_at_once(tokens, dollars):
            if self._tokens + tokens > self._most_tokens:
                self.exhausted = True
                raise BudgetReached(
                    f"the budget of {self._most_tokens:,} tokens does not cover the next call; "
                    f"{self._tokens:,} are spent"
                )
            if self._dollars + dollars > self._most_dollars:
                self.exhausted = True
                raise BudgetReached(
                    f"the budget of ${self._most_dollars:,.2f} does not cover the next call; "
                    f"${self._dollars:,.2f} are spent"
                )
            await asyncio.sleep(_LOOK_AGAIN_S)

    def settle(self, tokens: int, dollars: float, spent: Usage) -> None:
        """Give back what was reserved, and count what was spent."""
        with self._lock:
            self._reserved_tokens -= tokens
            # Dollars taken and given back leave a trace that would stand in the way of the last call; tokens do not.
            self._reserved_dollars = self._reserved_dollars - dollars if self._reserved_tokens else 0.0
            self._tokens += spent.tokens
            self._dollars += spent.cost

    async def settled(self) -> None:
        """Wait until nothing is reserved: no call is in flight then, not even one that nobody waits for any more."""
        while self._reserved_tokens:  # noqa: ASYNC110  reservations are settled from several event loops
            await asyncio.sleep(_LOOK_AGAIN_S)

    @property
    def more(self) -> str:
        """The settings that double the caps."""
        caps = (("tokens", self.budget.tokens), ("dollars", self.budget.dollars))
        return " ".join(
            f"--set budget.{name}={2 * cap:g}" if name == "dollars" else f"--set budget.{name}={2 * cap}"
            for name, cap in caps
            if cap is not None
        )

    def note(self) -> None:
        """Write the ledger if it is time."""
        if time.monotonic() - self._written >= _WRITE_EVERY_S:
            self.write()

    def write(self) -> None:
        """Add to the file what is not in it yet, and learn what other processes have spent."""
        with self._lock:
            self._written = time.monotonic()
            counted = [(*account[:3], account[2].as_dict()) for account in self._accounts]
            try:
                self._file.execute("BEGIN IMMEDIATE")
                tokens, dollars = self._sum()
                for (purpose, model, _, known), (*_, now) in zip(self._accounts, counted, strict=True):
                    if now["calls"] != known["calls"]:
                        self._add((self.stage, purpose, model), now, known)
                in_file = self._sum()
                self._file.execute("COMMIT")
            except sqlite3.Error as error:
                if self._file.in_transaction:
                    self._file.execute("ROLLBACK")
                raise self._unusable(error) from error
            self._accounts = counted
            self._tokens += tokens - self._in_file[0]
            self._dollars += dollars - self._in_file[1]
            self._in_file = in_file

    def close(self) -> None:
        try:
            self.write()
        finally:
            self._file.close()

    def _add(self, key: tuple[str, str, str], now: dict[str, Any], known: dict[str, Any]) -> None:
        more = [now[name] - known[name] for name in COUNTED]
        marks = ",".join("?" * (3 + len(more)))
        sums = ", ".join(f"{name} = {name} + excluded.{name}" for name in COUNTED)
        self._file.execute(
            f"INSERT INTO spending VALUES ({marks}) ON CONFLICT (stage, purpose, model) DO UPDATE SET {sums}",
            (*key, *more),
        )
        for kind, count in now["errors"].items():
            if fresh := count - known["errors"].get(kind, 0):
                self._file.execute(
                    "INSERT INTO failures VALUES (?,?,?,?,?) ON CONFLICT (stage, purpose, model, class) "
                    "DO UPDATE SET count = count + excluded.count",
                    (*key, kind, fresh),
                )

    def _sum(self) -> tuple[int, float]:
        (row,) = self._file.execute("SELECT total(prompt_tokens + completion_tokens), total(cost) FROM spending")
        return int(row[0]), row[1]

    def _unusable(self, error: Exception) -> UserError:
        return UserError(
            f"the ledger {self._path} cannot be written ({error}); make room or make it writable, and run again: "
            "what was committed is kept"
        )


def read_spending(path: Path) -> list[dict[str, Any]]:
    """The ledger's rows: stage, purpose, model, the figures of `Totals`. Empty if there is no ledger."""
    if not path.exists():
        return []
    # Not `mode=ro`: a process that was killed may have left a journal, which must be rolled back to read at all.
    place = f"{path.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(place, uri=True, timeout=_LOCK_TIMEOUT_S)) as file:
            rows = file.execute(f"SELECT stage, purpose, model, {', '.join(COUNTED)} FROM spending ORDER BY rowid")
            spent = [dict(zip((*_KEY, *COUNTED), row, strict=True)) for row in rows]
            failures = file.execute("SELECT stage, purpose, model, class, count FROM failures").fetchall()
    except sqlite3.Error as error:
        raise UserError(f"the ledger {path} cannot be read ({error}); what the run spent is not known") from error
    for row in spent:
        key = (row["stage"], row["purpose"], row["model"])
        row["errors"] = {kind: count for *of, kind, count in failures if tuple(of) == key}
    return spent


def add_spending(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Bring a ledger up to rows of other machines, as `read_spending` returns them; a process that spends sees them.

    A row is all that its stage has spent on a model for a purpose, so the larger of two is the later one. The ledger is
    made if it is new.

    Raises:
        UserError: the ledger cannot be written, or a row is none.
    """
    places = ",".join("?" * (len(_KEY) + len(COUNTED)))
    later = ", ".join(f"{name} = excluded.{name}" for name in COUNTED)
    try:
        with closing(sqlite3.connect(path, timeout=_LOCK_TIMEOUT_S, isolation_level=None)) as file:
            for table in _TABLES:
                file.execute(table)
            file.execute("BEGIN IMMEDIATE")
            for row in rows:
                key = [row[name] for name in _KEY]
                file.execute(
                    f"INSERT INTO spending VALUES ({places}) ON CONFLICT (stage, purpose, model) "
                    f"DO UPDATE SET {later} WHERE excluded.calls > calls",
                    [*key, *(row[name] for name in COUNTED)],
                )
                for kind, count in row["errors"].items():
                    file.execute(
                        "INSERT INTO failures VALUES (?,?,?,?,?) ON CONFLICT (stage, purpose, model, class) "
                        "DO UPDATE SET count = excluded.count WHERE excluded.count > count",
                        [*key, kind, count],
                    )
            file.execute("COMMIT")
    except (sqlite3.Error, KeyError, TypeError) as error:
        raise UserError(f"the ledger {path} cannot be brought up to what other machines spent ({error})") from error
