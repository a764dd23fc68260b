"""Places in flight are never lost nor given twice: cancelled calls, ended event loops, random programs and a model."""

import asyncio
import random
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.llm.limiter import Limiter


def test_sleepers_through_a_pause_do_not_strand_others_when_cancelled():
    async def run():
        limiter = Limiter(1)
        assert limiter.try_acquire()
        tasks = [asyncio.create_task(limiter.acquire()) for _ in range(3)]
        await asyncio.sleep(0)
        limiter.back_off(time.monotonic(), 0.1)
        limiter.release(answered=False)
        for _ in range(10):
            await asyncio.sleep(0)
        tasks[0].cancel()
        for _ in range(2):
            done, _ = await asyncio.wait(tasks[1:], return_when=asyncio.FIRST_COMPLETED)
            assert limiter.in_flight == 1
            tasks = [task for task in tasks if task not in done]
            limiter.release(answered=True)

    asyncio.run(asyncio.wait_for(run(), 20))


@pytest.mark.parametrize("other_loop", [False, True])
def test_who_is_cancelled_in_the_moment_of_getting_a_place_passes_it_on(other_loop):
    async def run():
        limiter = Limiter(1)
        assert limiter.try_acquire()
        first, second = (asyncio.create_task(limiter.acquire()) for _ in range(2))
        await asyncio.sleep(0)
        if other_loop:
            other = threading.Thread(target=limiter.release, kwargs={"answered": True})
            other.start()
            other.join()
        else:
            limiter.release(answered=True)
        first.cancel()
        await second
        assert first.cancelled()
        assert limiter.in_flight == 1

    asyncio.run(asyncio.wait_for(run(), 20))


def test_who_waits_in_an_event_loop_that_has_ended_is_passed_over():
    limiter = Limiter(1)
    assert limiter.try_acquire()
    ended = asyncio.new_event_loop()
    stranded = ended.create_task(limiter.acquire())
    ended.run_until_complete(asyncio.sleep(0))
    ended.close()
    limiter.release(answered=True)
    assert limiter.in_flight == 0
    stranded._log_destroy_pending = False


class Model:
    """Model of the limit by its rules alone, without queue and locks."""

    def __init__(self, cap: int) -> None:
        self.cap, self.limit, self.good = cap, float(min(32, cap)), 0
        self.last_cut = self.resume_at = 0.0

    def answered(self, in_flight: int) -> None:
        if self.limit < self.cap and in_flight >= int(self.limit):
            self.good += 1
            if self.good == 25:
                self.good, self.limit = 0, min(self.limit + 1, self.cap)

    def turned_away(self, sent_at: float, retry_after: float) -> None:
        self.good = 0
        self.resume_at = time.monotonic() + retry_after
        if sent_at > self.last_cut:
            self.last_cut, self.limit = time.monotonic(), max(1.0, self.limit * 0.75)


OPERATIONS = st.tuples(
    st.sampled_from(
        [*["call"] * 4, *["answer"] * 2, "fail", "throttle", "wait", "cancel waiting", "cancel holder"],
    ),
    st.integers(0, 2**16),
)


@settings(max_examples=60)
@given(st.integers(1, 6), st.lists(OPERATIONS, max_size=120))
def test_no_program_of_calls_and_cancellations_exceeds_the_limit_or_leaks_a_place(cap, operations):
    async def run():
        limiter, model = Limiter(cap), Model(cap)
        over: dict[asyncio.Task, asyncio.Future] = {}
        """Calls that have a place, and what ends each."""
        send_times: dict[asyncio.Task, float] = {}
        tasks: list[asyncio.Task] = []

        async def call():
            if not limiter.try_acquire():
                await limiter.acquire()
            answered, me = False, asyncio.current_task()
            try:
                assert len(over) < int(limiter.limit)
                assert time.monotonic() >= model.resume_at
                over[me], send_times[me] = asyncio.get_running_loop().create_future(), time.monotonic()
                answered = await over[me]
            finally:
                over.pop(me, None)
                limiter.release(answered=answered)

        async def settle():
            for _ in range(12):
                await asyncio.sleep(0)

        for kind, number in operations:
            waiting = [task for task in tasks if not task.done() and task not in over]
            holders = list(over)
            if kind == "call":
                tasks.append(asyncio.create_task(call()))
            elif kind == "wait":
                await asyncio.sleep(0.0015)
            elif kind == "cancel waiting" and waiting:
                waiting[number % len(waiting)].cancel()
            elif kind != "cancel waiting" and holders:
                holder = holders[number % len(holders)]
                if kind == "cancel holder":
                    holder.cancel()
                elif kind == "throttle":
                    model.turned_away(send_times[holder], 0.001)
                    limiter.back_off(send_times[holder], 0.001)
                    over[holder].set_result(False)
                else:
                    if kind == "answer":
                        model.answered(len(holders))
                    over[holder].set_result(kind == "answer")
            await settle()
            assert limiter.in_flight == len(over)
            assert limiter.limit == model.limit
        while left := [task for task in tasks if not task.done()]:
            for end in list(over.values()):
                end.done() or end.set_result(False)
            await asyncio.wait(left, timeout=0.001)
        for task in tasks:
            assert task.cancelled() or task.exception() is None
        assert limiter.in_flight == 0
        assert limiter.limit >= 1

    asyncio.run(asyncio.wait_for(run(), 20))


def test_four_event_loops_keep_to_the_limit_and_leak_nothing():
    limiter, lock, busy, most = Limiter(8), threading.Lock(), [0], [0]

    def work(seed):
        dice = random.Random(seed)

        async def call():
            if not limiter.try_acquire():
                await limiter.acquire()
            with lock:
                busy[0] += 1
                most[0] = max(most[0], busy[0])
            sent_at = time.monotonic()
            try:
                await asyncio.sleep(dice.uniform(0, 0.001))
                if dice.random() < 0.02:
                    limiter.back_off(sent_at, 0.002)
            finally:
                with lock:
                    busy[0] -= 1
                limiter.release(answered=dice.random() < 0.9)

        async def run():
            for _ in range(15):
                tasks = [asyncio.create_task(call()) for _ in range(20)]
                for task in dice.sample(tasks, 6):
                    await asyncio.sleep(0)
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run(asyncio.wait_for(run(), 60))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 2 <= most[0] <= 8
    assert (limiter.in_flight, busy[0]) == (0, 0)
