"""Model calls of a stage: cached per run, charged to the run's budget, and stopped when most of them fail.

The budget's caps live in a file of the run's folder, not in the stage's configuration, so that raising a cap does not
restart the stage.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rubricworks.errors import StoppedAtBudget, TransientError, UserError
from rubricworks.llm import ChatClient, ChatError, Endpoint, Spending, read_budget
from rubricworks.llm.cache import CACHE_FILE
from rubricworks.llm.spending import SPENDING_FILE
from rubricworks.rubrics import ErrorClass

T = TypeVar("T")

_MIN_CALLS = 20
"""Calls of a stage before an early stop is considered."""
_MIN_LATER_CALLS = 100
"""Calls in a later window before that: the rollouts of a group ask alike, so failures come in bursts."""
_WINDOW = 200
"""Calls after which a new window begins."""


class StageCalls:
    """The chat clients of one stage, with their shared budget and early stop."""

    def __init__(self, run: Path, stage: str) -> None:
        self._run = run
        self._stage = stage
        self.clients: list[ChatClient] = []
        self._spending: Spending | None = None
        self._window_start: dict[int, tuple[int, int]] = {}
        """id of a client → its calls and failures before the current window."""

    def client(self, endpoint: Endpoint, purpose: str) -> ChatClient:
        if self._spending is None:
            self._spending = Spending(self._run / SPENDING_FILE, self._stage, read_budget(self._run))
        client = ChatClient(
            endpoint,
            cache=self._run / CACHE_FILE,
            purpose=purpose,
            spending=self._spending,
            on_failure=self._on_failure,
        )
        self.clients.append(client)
        return client

    async def gather_all(self, calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Run the coroutines concurrently and return their results in order.

        If one fails, the others are cancelled; if the budget is exhausted, calls in flight finish and are cached first.

        Raises:
            UserError: the first that a coroutine raised.
        """
        return await self._gather([asyncio.ensure_future(call) for call in calls])

    async def gather_stream(self, calls: Iterator[Coroutine[Any, Any, T]], at_once: int) -> list[T]:
        """Run the coroutines `at_once` at a time and return their results in order, as `gather_all` does.

        The iterator is asked for the next one when there is room for it, so that what it reads need not fit in memory.
        """
        slots, tasks, failed = asyncio.Semaphore(at_once), list[asyncio.Future[T]](), asyncio.Event()

        def settle(task: asyncio.Future[T]) -> None:
            slots.release()
            if task.cancelled() or task.exception() is not None:
                failed.set()

        try:
            while not failed.is_set():
                await slots.acquire()
                call = next(calls, None)
                if call is None:
                    break
                task: asyncio.Future[T] = asyncio.ensure_future(call)
                task.add_done_callback(settle)
                tasks.append(task)
        except BaseException:
            for started in tasks:
                started.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        return await self._gather(tasks)

    async def _gather(self, tasks: Sequence[asyncio.Future[T]]) -> list[T]:
        try:
            return await asyncio.gather(*tasks)
        except BaseException:
            exhausted = self._spending is not None and self._spending.exhausted
            if not exhausted:
                for task in tasks:
                    task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if exhausted and self._spending is not None:
                await self._spending.wait_until_settled()
            raise

    def close(self) -> None:
        """Flush spending that is not yet in the ledger."""
        if self._spending is not None:
            self._spending.close()
            self._spending = None

    def _on_failure(self, error: ChatError, client: ChatClient) -> None:
        if error.error_class is ErrorClass.BUDGET:
            assert self._spending is not None
            raise StoppedAtBudget(f"stopped at the budget: {error.message}", self._spending.doubled_caps)
        if refused := client.access_refused(error):
            raise UserError(refused)
        calls, failed = client.totals.calls - client.totals.cached, client.totals.failed
        before_calls, before_failed = self._window_start.get(id(client), (0, 0))
        least_calls = _MIN_LATER_CALLS if before_calls else _MIN_CALLS
        recent_calls, recent_failures = calls - before_calls, failed - before_failed
        if recent_calls >= least_calls and 2 * recent_failures >= recent_calls:
            raise TransientError(
                f"{recent_failures} of the last {recent_calls} calls failed, so the stage stops before more is lost; "
                f"the last one: {error}; mend it and run again"
            )
        if recent_calls >= _WINDOW:
            self._window_start[id(client)] = (calls, failed)
