"""A table of responses graded by one judge or several, and whether nothing of it was lost or invented."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from faulty_judge import truth
from key_search import VARIABLE, KeySearch
from scripted_server import ScriptedServer

from rubricworks.data.tables import Sample
from rubricworks.grading import FailedCall, Grader
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.rubrics import Criterion, Rubric, Verdict

Row = tuple[Sample, str, Rubric]


def rows(count: int, criteria: int = 3) -> Iterator[Row]:
    """Responses, each with a rubric of its own."""
    for number in range(count):
        titles = [f"criterion {index} of {number}" for index in range(criteria)]
        rubric = Rubric(criteria=tuple(Criterion(criterion=title, weight=1) for title in titles))
        yield Sample(sample_id=f"s{number}", image=b"", prompt=""), f"caption {number}", rubric


class Graded:
    """Scorecards, dead letters, and the clients that made them."""

    def __init__(
        self,
        url: str,
        judge_key: KeySearch,
        table: Iterable[Row],
        *,
        models: tuple[str, ...] = ("j",),
        call_per: str = "response",
        cache: Path | None = None,
        attempts: int = 8,
        patience_s: float = 600.0,
        **options: Any,
    ) -> None:
        self.table, self.models, self.call_per = list(table), models, call_per
        self.letters: list[FailedCall] = []
        endpoints = [Endpoint(url=url, model=model, **{"api_key_env": VARIABLE, **options}) for model in models]

        async def run() -> None:
            async with AsyncExitStack() as stack:
                settings: dict[str, Any] = {"cache": cache, "attempts": attempts, "patience_s": patience_s}
                self.clients = [ChatClient(endpoint, purpose="judge", **settings) for endpoint in endpoints]
                for client in self.clients:
                    await stack.enter_async_context(client)
                grader = Grader(self.clients, call_per=call_per, on_error=self.letters.append)
                self.cards = [card async for card in grader.grade_many(self.table)]

        asyncio.run(asyncio.wait_for(run(), 120))
        judge_key.see(*self.clients, *endpoints, *(client.totals for client in self.clients), *self.cards)
        judge_key.see(*self.letters, *(letter.error for letter in self.letters))

    @property
    def credits(self) -> list[float | None]:
        return [credit for card in self.cards for credit in card.credits]

    def total(self, name: str) -> int:
        return sum(getattr(client.totals, name) for client in self.clients)

    def check(self, server: ScriptedServer, *, unseen: int = 0) -> None:
        """For each pair and judge there is one credit, the judge's own, or one dead letter; all counts agree.

        Args:
            unseen: requests that never reached the server.
        """
        assert [card.response for card in self.cards] == [response for _, response, _ in self.table]
        failures = Counter(
            (letter.judge, letter.response, title) for letter in self.letters for title in letter.criteria
        )
        for card, (_, response, rubric) in zip(self.cards, self.table, strict=True):
            titles = [criterion.criterion for criterion in rubric.criteria]
            assert [verdict.criterion for verdict in card.verdicts] == titles
            for verdict in card.verdicts:
                self._check_verdict(response, verdict, failures)
        per_response = [len(rubric.criteria) if self.call_per == "criterion" else 1 for _, _, rubric in self.table]
        assert self.total("calls") == len(self.models) * sum(per_response)
        assert self.total("requests") == len(server.chats) + unseen
        for client in self.clients:
            mine = [letter for letter in self.letters if letter.judge == client.endpoint.model]
            assert Counter(client.totals.errors) == Counter(letter.error.error_class for letter in mine)
            assert client.limiter.in_flight == 0
            assert 0 <= client.totals.prompt_tokens < 10**9
            assert 0 <= client.totals.completion_tokens < 10**9

    def _check_verdict(self, response: str, verdict: Verdict, failures: Counter[tuple[str, str, str]]) -> None:
        votes = verdict.votes if len(self.models) > 1 else (verdict.credit,)
        for model, vote in zip(self.models, votes, strict=True):
            assert (vote is not None) + failures[model, response, verdict.criterion] == 1
            assert vote in (None, truth(model, response, verdict.criterion))
        required = len(votes) // 2 + 1
        assert verdict.credit == next((credit for credit in (0, 1) if votes.count(credit) >= required), None)
        assert (verdict.credit is None) == (verdict.error is not None)
