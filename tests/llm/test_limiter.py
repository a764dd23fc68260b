"""Limit of requests in flight: the documented rules, one by one."""

import asyncio
import threading
import time

import pytest
from scripted_server import fail, say

from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, ChatError, Endpoint
from rubricworks.llm.limiter import Limiter

ASK = [{"role": "user", "content": "?"}]


def fill(limiter: Limiter) -> int:
    """Take every place there is."""
    count = 0
    while limiter.try_acquire():
        count += 1
    return count


@pytest.mark.parametrize(("cap", "places"), [(1, 1), (3, 3), (32, 32), (500, 32)])
def test_it_begins_at_32_or_at_a_lower_cap(cap, places):
    assert fill(Limiter(cap)) == places


def test_limit_grows_by_one_with_every_25_answers_up_to_its_cap():
    limiter = Limiter(34)
    grown = []
    for _ in range(100):
        fill(limiter)
        limiter.release(answered=True)
        grown.append(int(limiter.limit))
    assert grown == [32] * 24 + [33] * 25 + [34] * 51


def test_it_does_not_grow_while_places_are_free_nor_with_answers_that_were_no_good():
    idle, failing = Limiter(100), Limiter(100)
    for _ in range(100):
        assert idle.try_acquire()
        idle.release(answered=True)
        fill(failing)
        failing.release(answered=False)
    assert (idle.limit, failing.limit) == (32, 32)


def test_it_falls_to_three_quarters_once_per_burst_and_never_below_one():
    limiter, limits = Limiter(128), []
    while len(limits) < 14:
        sent_at, burst = time.monotonic(), fill(limiter)
        limits.append(burst)
        for _ in range(burst):
            limiter.back_off(sent_at, 0.001)
            limiter.release(answered=False)
        time.sleep(0.002)
        asyncio.run(limiter.acquire())
        limiter.release(answered=False)
    # Three quarters of the exact limit each time; what can be in flight is the whole part of it.
    assert limits == [32, 24, 18, 13, 10, 7, 5, 4, 3, 2, 1, 1, 1, 1]
    assert limiter.cuts == 14
    assert limiter.throttled == sum(limits)


@pytest.mark.parametrize("retry_after", [None, 0.0])
def test_pause_doubles_without_a_hint_and_success_resets_it(retry_after):
    limiter = Limiter(1)
    pauses = [limiter.back_off(time.monotonic(), retry_after) for _ in range(9)]
    assert pauses == pytest.approx([0.25, 0.5, 1, 2, 4, 8, 16, 20, 20], abs=0.1)

    limiter = Limiter(1)
    for _ in range(2):
        assert limiter.back_off(time.monotonic(), retry_after) == pytest.approx(0.25, abs=0.1)
        asyncio.run(limiter.acquire())
        limiter.release(answered=True)


@pytest.mark.parametrize("retry_after", [0.0, None, 0.001])
def test_thousands_of_refusals_in_a_row_leave_one_place_and_harm_nothing(retry_after):
    limiter = Limiter(32)
    for _ in range(3_000):
        limiter.back_off(time.monotonic(), retry_after)
    assert (limiter.limit, limiter.throttled) == (1, 3_000)


def test_nothing_is_sent_while_the_server_asks_for_patience():
    async def run():
        limiter, goes_on = Limiter(2), []

        async def call():
            if not limiter.try_acquire():
                await limiter.acquire()
            goes_on.append(time.monotonic())
            await asyncio.sleep(0)
            limiter.release(answered=True)

        assert fill(limiter) == 2
        waiting = [asyncio.create_task(call()) for _ in range(6)]
        await asyncio.sleep(0)
        asked_at = time.monotonic()
        limiter.back_off(asked_at, 0.3)
        limiter.release(answered=False)
        limiter.release(answered=False)
        late = asyncio.create_task(call())
        await asyncio.gather(*waiting, late)
        assert min(goes_on) - asked_at >= 0.3
        assert limiter.in_flight == 0

    asyncio.run(asyncio.wait_for(run(), 20))


def test_server_that_only_says_429_fails_the_call_after_patience_s(serve):
    server = serve([fail(429)])

    async def run():
        async with ChatClient(Endpoint(url=server.url, model="m"), patience_s=0.6) as client:
            with pytest.raises(ChatError, match=r"answered nothing else for 0\.6 s"):
                await client.chat(ASK)
            return client.limiter

    limiter = asyncio.run(run())
    assert (
        len(server.chats) == limiter.throttled == 2
    )  # at once and after 0.25 s; after 0.5 s more it would be too late


def test_clients_of_one_endpoint_and_model_share_a_limiter(serve):
    answer = say("good")
    answer.delay = 0.01
    server = serve([answer])
    endpoint = Endpoint(url=server.url, model="m", concurrency=3)
    clients = [ChatClient(endpoint) for _ in range(4)]
    assert len({id(client.limiter) for client in clients}) == 1
    assert ChatClient(endpoint, "other").limiter is not clients[0].limiter

    def work(client):
        async def run():
            async with client:
                await asyncio.gather(*(client.chat(ASK, seed=seed) for seed in range(12)))

        asyncio.run(run())

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(server.chats), server.busiest) == (48, 3)
    assert clients[0].limiter.in_flight == 0


def test_a_call_that_cannot_be_sent_for_want_of_a_key_takes_no_place(serve, monkeypatch):
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    client = ChatClient(Endpoint(url=serve([say("good")]).url, model="m", api_key_env="JUDGE_KEY", concurrency=2))

    async def run():
        for _ in range(5):
            with pytest.raises(UserError, match="JUDGE_KEY"):
                await client.chat(ASK)
        assert client.limiter.in_flight == 0
        monkeypatch.setenv("JUDGE_KEY", "k")
        assert (await client.chat(ASK)).value == "good"
        await client.close()

    asyncio.run(asyncio.wait_for(run(), 20))
