"""Oddities of servers and gateways: each is read rightly, or is one clear error of its call; none ends a run."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from gateway_oddities import CAPTION, ODDITIES, VERDICT, GatewayServer, Outcome
from scripted_server import ScriptedServer

from rubricworks.data.tables import Sample
from rubricworks.grading import FailedCall, Grader
from rubricworks.llm import ChatClient, ChatError
from rubricworks.rubrics import Criterion, Rubric

pytestmark = pytest.mark.usefixtures("quick_retries")
RUBRIC = Rubric(criteria=(Criterion(criterion="Names a cat", weight=1),))
SAMPLE = Sample(sample_id="s", image=b"", prompt="")


@pytest.fixture(scope="module")
def gateway() -> Iterator[ScriptedServer]:
    server = ScriptedServer(GatewayServer())
    yield server
    server.close()


def check(gateway: ScriptedServer, name: str, client: ChatClient, outcome: Outcome, *, judged: bool) -> None:
    """Requests and tokens of a call are those that the server saw and reported."""
    totals = client.totals
    assert gateway.script.requests.pop((name, judged)) == totals.requests == outcome.requests
    assert totals.errors == ({outcome.error: 1} if outcome.error else {})
    tokens = totals.prompt_tokens + totals.completion_tokens
    if ODDITIES[name].once:
        assert client.limiter.throttled == 1
    if outcome.tokens is None:
        assert totals.estimated == 1
        assert tokens > 0
    else:
        assert (tokens, totals.estimated) == (outcome.tokens, 0)


def test_the_log_says_once_that_a_server_reports_no_tokens(gateway, caplog):
    async def ask():
        async with ChatClient(gateway.url, "usage null") as client:
            return [await client.chat([{"role": "user", "content": text}]) for text in ("a", "b")]

    assert [reply.usage.estimated for reply in asyncio.run(ask())] == [True, True]
    gateway.script.requests.clear()
    (record,) = [record for record in caplog.records if record.name == "rubricworks.llm.client"]
    assert (
        record.getMessage()
        == f"usage null at {gateway.url} does not report all tokens of its answers; they are estimated"
    )


def check_error(name: str, error: ChatError, outcome: Outcome) -> None:
    assert error.error_class is outcome.error
    assert error.attempts == outcome.requests
    assert ODDITIES[name].says in error.message
    assert "\n" not in error.message
    assert error.raw, "a dead letter has the response"


@pytest.mark.parametrize("name", ODDITIES)
def test_an_oddity_gives_the_caption_or_one_clear_error(gateway, name):
    outcome = ODDITIES[name].caption

    async def ask():
        async with ChatClient(gateway.url, name) as client:
            try:
                return client, await client.chat([{"role": "user", "content": "Describe it."}])
            except ChatError as error:
                return client, error

    client, result = asyncio.run(ask())
    if outcome.error is None:
        assert result.value == CAPTION
    else:
        check_error(name, result, outcome)
    check(gateway, name, client, outcome, judged=False)


@pytest.mark.parametrize("name", ODDITIES)
def test_an_oddity_gives_the_verdict_or_a_dead_letter_and_no_number(gateway, name):
    outcome, letters = ODDITIES[name].judged, list[FailedCall]()

    async def grade():
        async with ChatClient(gateway.url, name) as client:
            return client, await Grader(client, on_error=letters.append).grade(SAMPLE, CAPTION, RUBRIC)

    client, card = asyncio.run(grade())
    if outcome.error is None:
        assert (card.credits, letters) == ([1.0], [])
        assert card.verdicts[0].reasoning == json.loads(VERDICT)["verdicts"][0]["reasoning"]
    else:
        assert card.credits == [None]
        assert card.verdicts[0].error is outcome.error
        check_error(name, letters[0].error, outcome)
    check(gateway, name, client, outcome, judged=True)
