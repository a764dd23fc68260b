"""A stage's calls to models: cached for the run, paid from its budget, and stopped when they only fail.

The budget's caps stand in a file of the run's folder, not in a stage's configuration: raising a cap must not make a
stage begin anew.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

from rubricworks.errors import StoppedAtBudget, UserError
from rubricworks.llm import ChatClient, ChatError, Endpoint, Spending, read_budget
from rubricworks.llm.cache import CACHE_FILE
from rubricworks.llm.spending import SPENDING_FILE
from rubricworks.rubrics import ErrorClass

T = TypeVar("T")

_AT_LEAST = 20
_WINDOW = 200
"""Calls that an early stop looks back on, at most."""


class StageCalls:
    """Makes the clients of one stage and watches over them."""

    def __init__(self, run: Path, stage: str) -> None:
        self._run = run
        self._stage = stage
        self.clients: list[ChatClient] = []
        self._spending: Spending | None = None
        self._counted: dict[int, tuple[int, int]] = {}
        """Client → calls and failures before the window."""

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

    async def together(self, asks: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """What all of them return, in order. When the budget is reached, those in flight are still heard and kept.

        Raises:
            UserError: the first that one of them raised.
        """
        tasks = [asyncio.ensure_future(ask) for ask in asks]
        try:
            return await asyncio.gather(*tasks)
        except BaseException:
            exhausted = self._spending is not None and self._spending.exhausted
            if not exhausted:
                for task in tasks:
                    task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if exhausted and self._spending is not None:
                await self._spending.settled()
            raise

    def close(self) -> None:
        """Write what is not yet in the ledger."""
        if self._spending is not None:
            self._spending.close()
            self._spending = None

    def _on_failure(self, error: ChatError, client: ChatClient) -> None:
        if error.error_class is ErrorClass.BUDGET:
            assert self._spending is not None
            raise StoppedAtBudget(f"stopped at the budget: {error.message}", self._spending.more)
        calls, failed = client.totals.calls - client.totals.cached, client.totals.failed
        before_calls, before_failed = self._counted.get(id(client), (0, 0))
        recent, bad = calls - before_calls, failed - before_failed
        if recent >= _AT_LEAST and 2 * bad >= recent:
            raise UserError(
                f"{bad} of the last {recent} calls failed, so the stage stops before more is lost; the last one: "
                f"{error}; mend it and run again"
            )
        if recent >= _WINDOW:
            self._counted[id(client)] = (calls, failed)
