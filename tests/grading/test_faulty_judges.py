"""Every (response, criterion) ends as one credit or one dead letter, whatever a real server does wrong.

What the client counts is what the server saw, and no error becomes a number.
"""

import logging
import socket
import threading

import pyarrow.parquet as pq
import pytest
from faulty_judge import GOOD, FaultyJudge
from graded import Graded, rows
from judge_faults import FAULTS, Fault
from key_search import ECHOES, KEY, KeySearch
from scripted_server import fail

from rubricworks.data.schemas import SCHEMAS, table_from_rows
from rubricworks.errors import UserError
from rubricworks.rubrics import ErrorClass

SLOW = {"one byte now and then", "one byte now and then, unmeasured", "silence"}
WRONG = [name for name, fault in FAULTS.items() if fault.ends is not None]


def patience(name: str) -> float:
    return 0.5 if name in SLOW else 10.0


@pytest.mark.slow
@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize(
    ("call_per", "name"),
    [("response", name) for name in FAULTS] + [("criterion", name) for name in FAULTS if name not in SLOW],
)
def test_a_judge_that_only_ever_fails_so_leaves_dead_letters_and_no_number(serve, judge_key, call_per, name):
    fault, server = FAULTS[name], serve(FaultyJudge(lambda call, nth: name))
    graded = Graded(server.url, judge_key, rows(3), call_per=call_per, timeout_s=patience(name))
    graded.check(server)
    if fault.ends is None:
        assert None not in graded.credits
        return
    assert graded.credits == [None] * 9
    assert {letter.error.error_class for letter in graded.letters} == {fault.ends}
    tries = 1 if fault.final else 3
    assert {letter.error.attempts for letter in graded.letters} == {tries}
    assert len(server.chats) == (3 if call_per == "response" else 9) * tries
    assert all("\n" not in letter.error.message and len(letter.error.message) < 600 for letter in graded.letters)
    assert all(len(letter.error.raw) <= 20_000 for letter in graded.letters)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize("name", WRONG)
def test_a_judge_that_fails_so_once_is_asked_again_unless_that_cannot_help(serve, judge_key, name):
    server = serve(FaultyJudge(lambda call, nth: GOOD if nth else name))
    graded = Graded(server.url, judge_key, rows(3), timeout_s=patience(name))
    graded.check(server)
    assert (graded.credits.count(None), len(graded.letters)) == ((9, 3) if FAULTS[name].final else (0, 0))
    assert len(server.chats) == (3 if FAULTS[name].final else 6)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_refused_and_neither_the_question_nor_the_key_goes_on(serve, judge_key, status):
    other = serve(FaultyJudge(lambda call, nth: GOOD))
    server = serve([fail(status, f"over there, {KEY}", Location=f"{other.url}/chat/completions")])
    graded = Graded(server.url, judge_key, rows(3), call_per="criterion")
    graded.check(server)
    assert {letter.error.error_class for letter in graded.letters} == {ErrorClass.TRANSPORT}
    assert "redirects are refused" in graded.letters[0].error.message
    assert (len(server.heard), len(other.heard)) == (9, 0)
    assert {request.headers["Authorization"] for request in server.heard} == {f"Bearer {KEY}"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_server_that_comes_up_late_is_waited_for(serve, judge_key):
    port, judge = free_port(), FaultyJudge(lambda call, nth: GOOD)
    starter = threading.Timer(0.7, lambda: serve(judge, port=port))
    starter.start()
    graded = Graded(f"http://127.0.0.1:{port}/v1", judge_key, rows(40))
    starter.join()
    assert None not in graded.credits
    unseen = graded.total("requests") - judge.requests
    assert unseen >= 40 - 32
    assert set(map(len, judge.asked.values())) == {1}
    assert len(judge.asked) == 40


@pytest.mark.usefixtures("quick_retries")
def test_a_server_that_never_comes_up_leaves_dead_letters(judge_key):
    graded = Graded(f"http://127.0.0.1:{free_port()}/v1", judge_key, rows(40))
    assert (graded.credits, len(graded.letters)) == ([None] * 120, 40)
    assert graded.total("requests") == 120
    assert "cannot connect" in graded.letters[0].error.message


@pytest.mark.usefixtures("quick_retries")
def test_echoed_key_is_masked_in_reasons_and_the_answer_counts(serve, judge_key):
    server = serve(FaultyJudge(lambda call, nth: "reasoning with the key"))
    graded = Graded(server.url, judge_key, rows(3), cache=judge_key.folder / "cache.sqlite")
    graded.check(server)
    assert None not in graded.credits
    assert graded.cards[0].verdicts[0].reasoning == "you sent Bearer ***"
    assert {request.headers["Authorization"] for request in server.heard} == {f"Bearer {KEY}"}


def test_the_search_for_the_key_finds_it_wherever_it_is(tmp_path):
    search = KeySearch(tmp_path)
    search.see(Fault(str, None), UserError(f"no {KEY}"))
    (tmp_path / "kept").write_text(f"Bearer {KEY}")
    letter = dict.fromkeys(SCHEMAS["dead_letters"].names, KEY) | {"attempts": 1}
    pq.write_table(table_from_rows("dead_letters", [letter]), tmp_path / "part.parquet", compression="zstd")
    record = logging.LogRecord("aiohttp", logging.INFO, "", 1, "sent %s", (KEY,), None)
    result = search.found_in([record], ECHOES[1])
    kinds = {place.split(":")[0] for place in result}
    assert kinds == {"a value", "log", "standard output", f"{tmp_path}/kept", f"{tmp_path}/part.parquet"}
