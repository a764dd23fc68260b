"""Several servers of one model, all real: who is asked, who is left out, and who comes back.

Servers wait for each other and outages end by a clock that the tests set, so a slow machine changes nothing.
"""

import asyncio
import time
from collections import Counter

import pytest
import stamina
from pydantic import ValidationError
from scripted_server import fail, say
from yarl import URL

from rubricworks.llm import ChatClient, ChatError, Endpoint
from rubricworks.llm.replicas import Replica, choose_replica
from rubricworks.rubrics import ErrorClass

ASK = [{"role": "user", "content": "?"}]


class Clock:
    """Time as the choice of a server knows it: it stands still but for a microsecond per look."""

    def __init__(self):
        self.now = 1_000.0

    def monotonic(self):
        self.now += 1e-6
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("rubricworks.llm.replicas.time", clock)
    monkeypatch.setattr("rubricworks.llm.transport.time", clock)
    return clock


def good(hold=None):
    answer = say("good")
    answer.hold = hold
    return answer


def count_chats(servers) -> int:
    return sum(len(server.chats) for server in servers)


def answer_together(servers, count: int, answer=good) -> None:
    """Let the servers answer once so many further requests have reached them."""
    total = count_chats(servers) + count
    for server in servers:
        server.script = [answer()]
        server.script[0].hold = lambda: count_chats(servers) >= total


def endpoint(*servers, **options) -> Endpoint:
    urls = tuple(server if isinstance(server, str) else server.url for server in servers)
    return Endpoint(url=urls, **{"model": "m", "concurrency": 12, **options})


async def ask(client: ChatClient, count: int, start: int = 0) -> Counter:
    """Outcomes of so many calls at once."""
    calls = (client.chat(ASK, seed=start + number) for number in range(count))
    replies = await asyncio.gather(*calls, return_exceptions=True)
    return Counter(reply.error_class if isinstance(reply, ChatError) else reply.value for reply in replies)


def test_pause_is_one_second_then_two_up_to_half_a_minute():
    replica, rests = Replica(URL(), URL()), []
    for _ in range(40):
        sent_at = time.monotonic()
        for _ in range(20):
            replica.record_failure(sent_at, unreachable=True)
        rests.append(replica.retry_at - replica.outage_started)
        assert 0 <= replica.outage_started - sent_at < 1
    assert rests[:8] == pytest.approx([1, 2, 4, 8, 16, 30, 30, 30])
    assert rests[8:] == pytest.approx([30] * 32)
    replica.record_success()
    replica.record_failure(time.monotonic(), unreachable=True)
    assert replica.retry_at - replica.outage_started == pytest.approx(1)


def test_one_request_tries_a_server_that_was_out():
    well, out = Replica(URL(), URL(), in_flight=5), Replica(URL(), URL())
    for number in range(3):
        assert choose_replica([well, out]) is out, number
        out.record_failure(time.monotonic(), unreachable=False)
    assert choose_replica([well, out]) is well
    out.retry_at = 0.0
    assert [choose_replica([well, out]) for _ in range(3)] == [out, well, well]
    well.record_failure(time.monotonic(), unreachable=True)
    out.record_failure(time.monotonic(), unreachable=True)
    assert choose_replica([well, out]) is well


def test_requests_in_flight_are_the_same_everywhere(serve):
    servers = [serve([good()]) for _ in range(3)]
    answer_together(servers, 12)

    async def run():
        async with ChatClient(endpoint(*servers)) as client:
            return await ask(client, 12)

    assert asyncio.run(run()) == {"good": 12}
    assert [server.busiest for server in servers] == [4, 4, 4]
    assert [len(server.chats) for server in servers] == [4, 4, 4]


def test_a_slow_server_gets_fewer_requests_and_holds_no_more_than_its_share(serve):
    servers = [serve([good()]) for _ in range(3)]
    slow, *quick = servers
    # It answers one request for every ten that the others get, and its last ones at the end.
    slow.script = lambda number, body: good(
        lambda: count_chats(quick) >= 10 * (number + 1) or count_chats(servers) == 150
    )

    async def run():
        async with ChatClient(endpoint(*servers)) as client:
            return await ask(client, 150)

    assert asyncio.run(run()) == {"good": 150}
    assert 4 <= len(slow.chats) <= 20
    assert slow.busiest <= 5


@pytest.mark.usefixtures("quick_retries")
def test_a_dead_server_is_left_out_and_taken_up_again_when_it_is_back(serve, clock):
    alive, dying = serve([good()]), serve([good()])
    port = dying.port
    answer_together([alive, dying], 12)

    async def run():
        async with ChatClient(endpoint(alive, dying)) as client:
            assert await ask(client, 12) == {"good": 12}
            assert len(dying.chats) == 6
            dying.close()
            before = client.totals.requests
            assert await ask(client, 200, 100) == {"good": 200}
            refused = client.totals.requests - before - 200
            assert 1 <= refused <= 12  # those in flight when it died
            assert len(alive.chats) == 206

            back = serve([good()], port=port)
            assert await ask(client, 20, 1_000) == {"good": 20}
            assert back.chats == []
            clock.now += 1
            assert await ask(client, 20, 1_100) == {"good": 20}
            assert back.chats
            alive.heard.clear()
            back.heard.clear()
            answer_together([alive, back], 12)
            assert await ask(client, 12, 1_200) == {"good": 12}
            assert (len(alive.chats), len(back.chats)) == (6, 6)

    asyncio.run(run())


@pytest.mark.usefixtures("quick_retries")
def test_a_server_that_fails_three_times_in_a_row_is_left_out_until_it_is_mended(serve, clock):
    stamina.set_testing(True, attempts=4)
    healthy, broken = serve([good()]), serve([fail(500)])

    async def run():
        async with ChatClient(endpoint(broken, healthy, concurrency=1)) as client:
            for number in range(40):
                assert await ask(client, 1, number) == {"good": 1}
            assert len(broken.chats) == 3
            clock.now += 1
            assert await ask(client, 2, 100) == {"good": 2}
            assert len(broken.chats) == 4
            broken.script = [good()]
            clock.now += 2
            assert await ask(client, 4, 200) == {"good": 4}
            assert len(broken.chats) > 4

    asyncio.run(run())


@pytest.mark.usefixtures("quick_retries")
def test_a_question_that_is_refused_speaks_of_the_question_and_not_of_the_server(serve, clock):
    servers = [serve([fail(400)]), serve([fail(400)])]

    async def run():
        async with ChatClient(endpoint(*servers)) as client:
            for start in range(0, 40, 10):
                answer_together(servers, 10, lambda: fail(400, "too long"))
                assert await ask(client, 10, start) == {ErrorClass.TRANSPORT: 10}

    asyncio.run(run())
    assert [len(server.chats) for server in servers] == [20, 20]


@pytest.mark.usefixtures("quick_retries")
def test_calls_fail_when_all_servers_are_dead_and_succeed_once_one_is_back(serve, clock):
    servers = [serve([good()]) for _ in range(3)]
    ports = [server.port for server in servers]
    for server in servers:
        server.close()

    async def run():
        async with ChatClient(endpoint(*servers)) as client:
            assert await ask(client, 30) == {ErrorClass.TRANSPORT: 30}
            assert client.totals.errors == {ErrorClass.TRANSPORT: 30}
            assert client.totals.requests == 90
            assert client.limiter.in_flight == 0
            back = serve([good()], port=ports[2])
            for number in range(100, 120):
                if not back.chats:
                    await ask(client, 1, number)
            assert await ask(client, 30, 1_000) == {"good": 30}

    asyncio.run(run())


def test_each_server_is_sent_the_same_key_and_path(serve, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "k-1")
    servers = [serve([good()]) for _ in range(2)]
    answer_together(servers, 4)
    bare = f"http://127.0.0.1:{servers[1].port}"

    async def run():
        async with ChatClient(endpoint(servers[0], bare, api_key_env="JUDGE_KEY")) as client:
            return await ask(client, 4)

    assert asyncio.run(run()) == {"good": 4}
    requests = [request for server in servers for request in server.heard]
    assert {(request.path, request.headers["Authorization"]) for request in requests} == {
        ("/v1/chat/completions", "Bearer k-1")
    }
    assert [len(server.heard) for server in servers] == [2, 2]


@pytest.mark.parametrize("second", ["gpu2:8000", "http://me:secret@gpu2:8000/v1"])
def test_every_address_of_a_list_is_checked(second):
    with pytest.raises(ValidationError, match=r"must start with http|holds a user or password"):
        endpoint("http://gpu1:8000/v1", second)
