"""The run's budget and its ledger: what is reserved, what is counted, and what a cap stops. A real server."""

import asyncio
import json
from collections import Counter

import pytest
from key_search import VARIABLE
from pydantic import BaseModel
from scripted_server import Said, say

from rubricworks.errors import UserError
from rubricworks.llm import Budget, ChatClient, ChatError, Endpoint, Spending, read_spending
from rubricworks.llm.spending import BudgetReached
from rubricworks.llm.usage import Usage
from rubricworks.rubrics import ErrorClass

ASK = [{"role": "user", "content": "how many?"}]
MOST = 50
"""Tokens that an answer may have."""


class Answer(BaseModel):
    n: int


def used(prompt=80, completion=20, delay=0.0, text="good"):
    answer = say(text, tokens=(prompt, completion))
    answer.delay = delay
    return answer


def reserved(server) -> int:
    """Tokens set aside for one of the requests that the server got: three bytes a token, and the longest answer."""
    return max(len(request.text) for request in server.chats) // 3 + MOST


class Wallet:
    """A client on a budget, and what its calls came to."""

    def __init__(self, judge_key, server, folder, *, response=None, cache=None, purpose="judge", **caps):
        self.endpoint = Endpoint(
            url=server.url, model="m", max_tokens=MOST, prices=(1_000, 3_000), api_key_env=VARIABLE
        )
        self.path, self.key, self.response = folder / "spending.sqlite", judge_key, response
        self.spending = Spending(self.path, "stage", Budget(**caps))
        self.client = ChatClient(self.endpoint, spending=self.spending, cache=cache, purpose=purpose)

    async def ask(self, seed=0):
        try:
            return await self.client.chat(ASK, self.response, seed)
        except ChatError as error:
            self.key.see(error)
            return error

    def ask_all(self, count, *, at_once=True, start=0):
        async def run():
            async with self.client:
                if at_once:
                    return await asyncio.gather(*(self.ask(start + seed) for seed in range(count)))
                return [await self.ask(start + seed) for seed in range(count)]

        replies = asyncio.run(asyncio.wait_for(run(), 30))
        self.spending.close()
        self.key.see(self.spending, self.client, read_spending(self.path))
        return Counter(reply.error_class if isinstance(reply, ChatError) else "good" for reply in replies), replies

    @property
    def spent(self):
        return sum(row["prompt_tokens"] + row["completion_tokens"] for row in read_spending(self.path))


def test_at_the_cap_the_next_call_fails_with_class_budget_and_is_not_sent(serve, judge_key, tmp_path):
    server = serve([used()])
    wallet = Wallet(judge_key, server, tmp_path, tokens=1_000)
    counts, replies = wallet.ask_all(20, at_once=False)
    fit = (1_000 - reserved(server)) // 100 + 1
    assert counts == {"good": fit, ErrorClass.BUDGET: 20 - fit}
    assert len(server.chats) == fit
    assert wallet.spent == 100 * fit
    assert replies[-1].attempts == 0
    assert "judge m at http" in replies[-1].message
    assert f"the budget of 1,000 tokens does not cover the next call; {100 * fit:,} are spent" in replies[-1].message


def test_dollars_are_capped_likewise(serve, judge_key, tmp_path):
    server = serve([used()])
    wallet = Wallet(judge_key, server, tmp_path, dollars=1.0)
    counts, replies = wallet.ask_all(20, at_once=False)
    most = ((reserved(server) - MOST) * 1_000 + MOST * 3_000) / 1e6
    fit = int((1.0 - most) / 0.14) + 1
    assert counts == {"good": fit, ErrorClass.BUDGET: 20 - fit}
    (row,) = read_spending(wallet.path)
    assert row["cost"] == pytest.approx(0.14 * fit)
    assert f"$1.00 does not cover the next call; ${0.14 * fit:.2f} are spent" in replies[-1].message


def test_what_is_in_flight_is_reserved_for_and_still_heard_when_the_cap_is_reached(serve, judge_key, tmp_path):
    server = serve([used(25, 15, delay=0.1)])
    wallet = Wallet(judge_key, server, tmp_path, tokens=1_000)
    counts, replies = wallet.ask_all(60, start=10)
    assert server.busiest == 1_000 // reserved(server)
    assert counts["good"] == len(server.chats) == wallet.spent // 40
    assert 1_000 - reserved(server) < wallet.spent <= 1_000
    assert counts["good"] + counts[ErrorClass.BUDGET] == 60
    assert {reply.raw for reply in replies if not isinstance(reply, ChatError)} == {"good"}


def test_a_call_that_waits_for_the_budget_does_not_begin_once_another_was_refused(tmp_path):
    async def waiting_when_a_larger_one_is_refused(spending):
        assert spending.try_reserve(60, 0.0)
        waits = asyncio.create_task(spending.reserve(50, 0.0))
        await asyncio.sleep(0)
        with pytest.raises(BudgetReached, match="100 tokens does not cover the next call; 0 are spent"):
            await spending.reserve(101, 0.0)
        spending.settle(60, 0.0, Usage(prompt_tokens=10))
        # Nothing is in flight from here on, for which the stage would wait.
        await asyncio.wait_for(spending.wait_until_settled(), 300)
        with pytest.raises(BudgetReached, match="does not cover the next call"):
            await asyncio.wait_for(waits, 300)
        assert not spending.try_reserve(1, 0.0)
        assert spending.try_reserve(1, 0.0, in_flight=True)

    spending = Spending(tmp_path / "spending.sqlite", "stage", Budget(tokens=100))
    asyncio.run(waiting_when_a_larger_one_is_refused(spending))
    spending.close()


def test_an_answer_without_usage_counts_as_an_estimate(serve, judge_key, tmp_path):
    server = serve([used(0, 0, text="x" * 30)])
    wallet = Wallet(judge_key, server, tmp_path, tokens=10_000)
    wallet.ask_all(1)
    assert wallet.spent == reserved(server) - MOST + 10


def test_a_repair_turn_near_the_cap_does_not_wait_for_its_own_reservation(serve, judge_key, tmp_path):
    turns = [used(text="prose"), used(text='{"n": 1}')]
    server = serve(turns)
    wallet = Wallet(judge_key, server, tmp_path, response=Answer, tokens=1_000)
    assert wallet.ask_all(1)[0] == {"good": 1}
    most = reserved(server)
    # Spent so far: 200; the first turn is 100, the second fits exactly beside that, and not beside the reservation.
    tight = Wallet(judge_key, serve(turns), tmp_path, response=Answer, tokens=300 + most)
    assert tight.ask_all(1)[0] == {"good": 1}
    assert tight.spent == 400


def test_turns_that_were_paid_count_though_the_next_one_did_not_fit(serve, judge_key, tmp_path):
    server = serve([used(text="prose")])
    wallet = Wallet(judge_key, server, tmp_path, response=Answer, tokens=300)
    counts, replies = wallet.ask_all(4)
    assert counts == {ErrorClass.BUDGET: 4}
    assert wallet.spent == 100 * len(server.chats)
    assert {reply.attempts for reply in replies} <= {0, 1, 2}
    assert sum(reply.attempts for reply in replies) == len(server.chats) > 0


def test_reservations_of_dollars_leave_no_trace_behind(tmp_path):
    spending = Spending(tmp_path / "spending.sqlite", "stage", Budget(dollars=1.0))
    for _ in range(2_000):
        for part in (0.1, 0.2, 0.3, 0.37):
            assert spending.try_reserve(1, part)
        for part in (0.1, 0.2, 0.3, 0.37):  # in floating point this leaves a little more than nothing
            spending.settle(1, part, Usage())
    asyncio.run(asyncio.wait_for(spending.reserve(1, 1.0), 10))
    spending.close()


def test_ledger_has_a_row_per_purpose_and_model_and_cached_calls_are_free(serve, judge_key, tmp_path):
    server = serve(lambda number, body: used(text="good" if body["seed"] < 6 else "fine", delay=0.01))
    for attempt in range(2):
        wallet = Wallet(judge_key, server, tmp_path, cache=tmp_path / "cache.sqlite")
        writer = ChatClient(wallet.endpoint, "writer", spending=wallet.spending, purpose="rubric", cache=None)

        async def write(writer=writer, start=10 * attempt):
            async with writer:
                await asyncio.gather(*(writer.chat(ASK, seed=start + seed) for seed in range(3)))

        asyncio.run(write())
        wallet.ask_all(5)
    judge, rubric = sorted(read_spending(wallet.path), key=lambda row: row["purpose"])
    shared = {"stage": "stage", "errors": {}}
    seconds = judge.pop("seconds"), rubric.pop("seconds")
    assert min(seconds) > 0.03
    assert judge == shared | {
        "purpose": "judge", "model": "m", "calls": 10, "cached": 5, "requests": 5,
        "prompt_tokens": 400, "completion_tokens": 100, "cost": pytest.approx(5 * 0.14), "cached_tokens": 0,
    }  # fmt: skip
    assert rubric == shared | {
        "purpose": "rubric", "model": "writer", "calls": 6, "cached": 0, "requests": 6,
        "prompt_tokens": 480, "completion_tokens": 120, "cost": pytest.approx(6 * 0.14), "cached_tokens": 0,
    }  # fmt: skip
    assert len(server.chats) == 11


@pytest.mark.usefixtures("quick_retries")
def test_failures_are_counted_by_class(serve, judge_key, tmp_path):
    answers = {
        0: used(text="prose"),
        1: say(None, refusal="no"),
        2: say("x", finish="length"),
        3: used(text='{"n": 1}'),
    }
    server = serve(lambda number, body: answers[body["seed"] % 4])
    wallet = Wallet(judge_key, server, tmp_path, response=Answer)
    wallet.ask_all(12)
    (row,) = read_spending(wallet.path)
    assert row["errors"] == {"malformed": 3, "refused": 3, "truncated": 3}
    assert (row["calls"], row["requests"]) == (12, 18)
    assert json.dumps(row)


def test_a_run_without_a_ledger_has_spent_nothing_and_a_file_that_is_none_is_named(tmp_path):
    assert read_spending(tmp_path / "none") == []
    (tmp_path / "spending.sqlite").write_text("a note to myself" * 100)
    with pytest.raises(UserError, match=r"the ledger \S*spending\.sqlite cannot be"):
        Spending(tmp_path / "spending.sqlite", "stage")
    with pytest.raises(UserError, match=r"the ledger \S*spending\.sqlite cannot be read"):
        read_spending(tmp_path / "spending.sqlite")


def test_tokens_that_the_provider_had_cached_are_kept_beside_their_price(serve, judge_key, tmp_path):
    body = json.loads(say("good", tokens=(80, 20)).body)
    body["usage"]["prompt_tokens_details"] = {"cached_tokens": 60}
    wallet = Wallet(judge_key, serve([Said(json.dumps(body).encode())]), tmp_path)
    wallet.client.endpoint = wallet.endpoint.model_copy(update={"prices": (*wallet.endpoint.prices, 100.0)})
    _, replies = wallet.ask_all(3)
    (row,) = read_spending(wallet.path)
    assert (row["prompt_tokens"], row["cached_tokens"]) == (240, 180)
    assert row["cost"] == pytest.approx(3 * (20 * 1_000 + 60 * 100 + 20 * 3_000) / 1e6)
    assert [reply.usage.cached_tokens for reply in replies] == [60, 60, 60]
