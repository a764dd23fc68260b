"""Many calls in flight while a server asks for patience, or does something else wrong on every other request."""

import random
import time
from email.utils import formatdate

import pytest
from faulty_judge import GOOD, PATIENCE, FaultyJudge
from graded import Graded, rows
from judge_faults import FAULTS
from scripted_server import fail

from rubricworks.rubrics import ErrorClass


class Storm:
    """Answers the first bursts of requests with 429, each burst at once, when all of it has arrived.

    Counted by requests, since under load no gap in time tells one burst from the next.
    """

    def __init__(self, judge, bursts, retry_after):
        self.judge, self.bursts, self.retry_after = judge, list(bursts), retry_after
        self.burst = self.arrivals = 0

    def __call__(self, number, body):
        burst = self.burst
        if burst == len(self.bursts):
            return self.judge(number, body)
        self.arrivals += 1
        if self.arrivals == self.bursts[burst]:
            self.burst, self.arrivals = burst + 1, 0
        answer = fail(429, "slow down", **self.retry_after())
        answer.hold = lambda: self.burst > burst
        return answer


@pytest.mark.parametrize(
    "retry_after",
    [
        dict,
        lambda: {"Retry_After": "1"},
        lambda: {"Retry_After": "0"},
        lambda: {"Retry_After": formatdate(time.time() + 1.5)},
    ],
    ids=["unsaid", "a second", "nothing", "a date"],
)
def test_a_storm_of_429_fails_no_call_and_loses_none(serve, judge_key, retry_after):
    # Each burst is as large as the limit, and cuts it once to three quarters.
    storm = Storm(FaultyJudge(lambda call, nth: GOOD), (32, 24, 18), retry_after)
    server = serve(storm)
    graded = Graded(server.url, judge_key, rows(100, 4), concurrency=64, attempts=1)
    graded.check(server)
    assert None not in graded.credits
    assert graded.total("requests") == 100 + 32 + 24 + 18
    assert set(map(len, storm.judge.asked.values())) == {1}
    limiter = graded.clients[0].limiter
    assert (limiter.throttled, limiter.cuts) == (32 + 24 + 18, 3)


def test_a_storm_that_does_not_end_fails_every_call_when_patience_is_over(serve, judge_key):
    server = serve(lambda number, body: fail(429, "slow down"))
    graded = Graded(server.url, judge_key, rows(60), call_per="criterion", patience_s=0.6)
    graded.check(server)
    assert graded.credits == [None] * 180
    assert {letter.error.error_class for letter in graded.letters} == {ErrorClass.TRANSPORT}
    assert all("answered nothing else for 0.6 s" in letter.error.message for letter in graded.letters)


SELDOM = {"10 MB, packed": 0.2, "one byte now and then": 0.3, "one byte now and then, unmeasured": 0.3}
NEVER = {"HTTP 429 for good": 0, "silence": 0}
WEIGHTS = {name: 1 for name in FAULTS} | SELDOM | NEVER | {GOOD: 110, PATIENCE: 2}
"""Of a request; the faults together make up a good third. Seldom is what takes long."""


def dice(seed):
    """Picks what comes of a request, whatever the order in which requests arrive."""
    names, weights = zip(*WEIGHTS.items(), strict=True)

    def pick(call, nth):
        return random.Random(f"{seed} {call} {nth}").choices(names, weights)[0]

    return pick


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize(
    "models",
    [pytest.param(("j",), id="one judge", marks=pytest.mark.slow), pytest.param(("j0", "j1", "j2"), id="three judges")],
)
@pytest.mark.parametrize("call_per", ["response", pytest.param("criterion", marks=pytest.mark.slow)])
def test_storm_of_faults_loses_and_invents_nothing(serve, judge_key, call_per, models):
    judge = FaultyJudge(dice(f"{call_per} {models}"))
    server = serve(judge)
    options = {"models": models, "call_per": call_per, "cache": judge_key.folder / "cache.sqlite", "timeout_s": 6}
    graded = Graded(server.url, judge_key, rows(80, 4), **options)
    graded.check(server)

    failed = {(letter.judge, letter.response, letter.criteria): letter.error for letter in graded.letters}
    assert failed.keys() == {call for call in judge.asked if judge.ends(call)}
    for call, error in failed.items():
        assert (error.error_class, error.attempts) == (judge.ends(call), len(judge.asked[call]))
    assert 0 < len(failed) < len(judge.asked) / 2
    wrong = {name for names in judge.asked.values() for name in names} - {GOOD}
    assert len(wrong) > 30
    if len(models) == 1:
        assert graded.credits.count(None) == sum(len(letter.criteria) for letter in graded.letters)

    calm = FaultyJudge(lambda call, nth: GOOD)
    mended = serve(calm)
    again = Graded(mended.url, judge_key, rows(80, 4), **options)
    again.check(mended)
    assert None not in again.credits
    assert calm.asked.keys() == failed.keys()
    assert again.total("cached") == graded.total("calls") - len(failed)
