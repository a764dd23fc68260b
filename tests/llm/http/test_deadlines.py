"""One timer for many requests: each ends when its own time is over, and a cancellation from outside stays one."""

import asyncio

import pytest
from scripted_server import Said, say

from rubricworks.llm import ChatClient, ChatError, Endpoint
from rubricworks.llm.http.connections import Deadlines


def slow(delay: float) -> Said:
    answer = say("late")
    answer.delay = delay
    return answer


def ask_all(url: str, count: int, *, timeout_s: float, pause: float = 0.0, patience: float | None = None):
    """Outcomes of several calls started one after the other: the text, or the error."""

    async def run():
        async with ChatClient(Endpoint(url=url, model="m", timeout_s=timeout_s, attempts=1)) as client:

            async def ask(number: int):
                await asyncio.sleep(number * pause)
                try:
                    async with asyncio.timeout(patience):
                        return (await client.chat([{"role": "user", "content": str(number)}])).value
                except (ChatError, TimeoutError) as error:
                    return error

            return await asyncio.gather(*map(ask, range(count)))

    return asyncio.run(run())


def test_only_those_whose_own_time_is_over_fail(serve):
    def script(_, body):
        return slow(5) if int(body["messages"][0]["content"]) % 3 == 0 else say("good")

    results = ask_all(serve(script).url, 12, timeout_s=0.4, pause=0.05)
    for number, result in enumerate(results):
        if number % 3:
            assert result == "good"
        else:
            assert "no answer within 0.4 s" in str(result)


def test_a_timeout_around_the_call_is_not_taken_for_the_requests_own(serve):
    (result,) = ask_all(serve([slow(5)]).url, 1, timeout_s=3, patience=0.2)
    assert type(result) is TimeoutError


def test_a_cancelled_call_is_cancelled(serve):
    async def run():
        async with ChatClient(Endpoint(url=serve([slow(5)]).url, model="m", timeout_s=3)) as client:
            call = asyncio.create_task(client.chat([{"role": "user", "content": "?"}]))
            await asyncio.sleep(0.2)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert client.limiter.in_flight == 0

    asyncio.run(run())


def test_a_task_that_was_cancelled_by_both_stays_cancelled():
    async def run():
        deadlines = Deadlines(0.05)

        async def request():
            task = deadlines.begin()
            try:
                await asyncio.sleep(5)
            finally:
                assert not deadlines.end(task)

        task = asyncio.create_task(request())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.05, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


def test_a_task_whose_time_was_over_once_can_send_again():
    async def run():
        deadlines = Deadlines(0.05)
        for seconds, late in ((5, True), (0, False), (5, True)):
            task = deadlines.begin()
            over = False
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                over = deadlines.end(task)
            assert over is late
            deadlines.end(task)
        assert asyncio.current_task().cancelling() == 0

    asyncio.run(run())
