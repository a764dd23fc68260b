"""A stage that reaches its budget, or whose endpoint only fails: it stops in one line, and goes on where it was."""

import asyncio
import json

import pytest
from asked_stages import caption, count_requests, describe, digest_of, prepare, tables
from grading_stage import launch_here
from key_search import ECHOES, VARIABLE
from scripted_server import fail, say

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.llm import Budget, ChatError, Endpoint, read_spending, write_budget
from rubricworks.runtime.calls import StageCalls

COUNT = 60


@pytest.fixture(scope="module")
def samples(tmp_path_factory) -> str:
    return prepare(tmp_path_factory.mktemp("samples"), COUNT)


def teacher(server, name="m", **options):
    priced = {"prices": [1e3, 0.0], **options}
    return {"url": server.url, "model": name, "api_key_env": VARIABLE, "max_tokens": 20, **priced}


def stopped(run, ask, stage="caption_committee") -> str:
    """The one line with which a stage stopped."""
    with pytest.raises(UserError) as caught:
        ask()
    error = json.loads((run / "error.json").read_text())
    assert (error["stage"], error["message"]) == (stage, str(caught.value))
    assert "\n" not in error["message"]
    assert not (run / stage / "done.json").exists()
    return error["message"]


def shards(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("captions/part-*.parquet")}


@pytest.mark.parametrize("caps", [{"tokens": 36_000}, {"dollars": 36.0}], ids=["tokens", "dollars"])
def test_capped_stage_stops_in_one_line_and_ends_as_without_a_cap(serve, judge_key, tmp_path, samples, caps):
    server, run = serve(describe), tmp_path / "run"
    config = {"teachers": [teacher(server, prices=[1e3, 1e3])], "shard_size": 8}
    whole = tables(caption(tmp_path / "whole", samples, **config))
    assert set(count_requests(server).values()) == {1}
    questions = count_requests(server).keys()
    server.heard.clear()

    write_budget(run, Budget(**caps))
    message = stopped(run, lambda: caption(run, samples, **config))
    assert message.startswith("stopped at the budget: caption m at http://127.0.0.1:")
    assert "does not cover the next call" in message
    (cap,) = caps
    assert json.loads((run / "error.json").read_text())["more"] == f"--set budget.{cap}={2 * caps[cap]:g}"
    committed = shards(run / "caption_committee")
    assert 0 < len(committed) < 8
    assert committed.items() <= whole.items()
    before = len(server.chats)
    assert 8 * len(committed) <= before < COUNT

    assert stopped(run, lambda: caption(run, samples, **config)).startswith(message[:30])
    assert len(server.chats) == before
    write_budget(run, Budget())
    assert tables(caption(run, samples, **config)) == whole
    assert count_requests(server) == dict.fromkeys(questions, 1)
    (spending,) = read_spending(run / "spending.sqlite")
    assert (spending["requests"], spending["prompt_tokens"]) == (COUNT, 900 * COUNT)
    assert not (run / "error.json").exists()


def slow_one(answer, body):
    """The first of several models takes its time."""
    answer.delay = 0.25 if body["model"] == "one" else 0.0
    return answer


def test_calls_in_flight_at_the_cap_are_kept_for_every_sample(serve, judge_key, tmp_path, samples):
    server, run = serve(lambda number, body: slow_one(describe(number, body), body)), tmp_path / "run"
    config = {"teachers": [teacher(server, "one"), teacher(server, "two", max_tokens=9_000)], "shard_size": 30}
    whole = tables(caption(tmp_path / "whole", samples, **config))
    server.heard.clear()
    write_budget(run, Budget(tokens=30_000))
    stopped(run, lambda: caption(run, samples, **config))
    write_budget(run, Budget())
    assert tables(caption(run, samples, **config)) == whole
    assert set(count_requests(server).values()) == {1}


def judge(_, body):
    count = body["messages"][-1]["content"].count('"evaluation_rule"')
    verdicts = [{"id": n + 1, "reasoning": digest_of(body), "score": n % 2} for n in range(count)]
    return slow_one(say(json.dumps({"verdicts": verdicts}), tokens=(900, 10)), body)


@pytest.mark.slow
@pytest.mark.parametrize("call_per", ["response", "criterion"])
def test_grading_by_several_judges_keeps_all_that_was_in_flight_at_the_cap(
    serve, judge_key, tmp_path, samples, call_per
):
    server, run = serve(judge), tmp_path / "run"
    judges = [teacher(server, "one"), teacher(server, "two"), teacher(server, "three", max_tokens=9_000)]
    config = {"judges": judges, "call_per": call_per, "shard_size": 16}
    whole = tables(launch_here(tmp_path / "whole", samples, config))
    questions = count_requests(server)
    assert set(questions.values()) == {1}
    server.heard.clear()
    write_budget(run, Budget(tokens=len(questions) * 600))
    stopped(run, lambda: launch_here(run, samples, config), "grading_stage")
    assert 0 < len(server.chats) < len(questions)
    write_budget(run, Budget())
    assert tables(launch_here(run, samples, config)) == whole
    assert count_requests(server) == questions


def failing(share, kind):
    """Fails on this share of the questions."""

    def script(number, body):
        bad = int(digest_of(body), 16) % 100 < share
        return kind if bad else describe(number, body)

    return script


@pytest.mark.slow
@pytest.mark.parametrize("share", [60, 100])
@pytest.mark.parametrize(
    "kind", [fail(400, f"no such model; {ECHOES[0]}"), say(None, refusal="no")], ids=["HTTP 400", "refusal"]
)
def test_stage_with_a_failing_endpoint_stops_and_continues_once_mended(
    serve, judge_key, tmp_path, samples, share, kind
):
    server, run = serve(describe), tmp_path / "run"
    config = {"teachers": [teacher(server, concurrency=8)], "shard_size": 64}
    whole = tables(caption(tmp_path / "whole", samples, **config))
    server.heard.clear()

    server.script = failing(share, kind)
    message = stopped(run, lambda: caption(run, samples, **config))
    assert "calls failed, so the stage stops before more is lost; the last one: " in message
    assert ("HTTP 400: no such model" if kind.status == 400 else "the model declined: no") in message
    bad, _, _, _, recent = message.split()[:5]
    assert int(recent) >= 20
    assert 2 * int(bad) >= int(recent)
    assert len(server.chats) < COUNT
    answered = {digest_of(request.body) for request in server.chats if request.said is not kind}

    server.heard.clear()
    server.script = describe
    assert tables(caption(run, samples, **config)) == whole
    assert set(count_requests(server).values()) == {1}
    # What was answered is not asked again, but for those in flight, which the stop cut off.
    assert len(answered & count_requests(server).keys()) <= 8


def test_endpoint_that_fails_below_half_leaves_dead_letters_and_does_not_stop(serve, judge_key, tmp_path, samples):
    kind = fail(400, f"too large; {ECHOES[0]}")
    kind.delay = 0.02
    server, run = serve(failing(25, kind)), tmp_path / "run"
    out = caption(run, samples, teachers=[teacher(server)])
    bad = sum(request.said is kind for request in server.chats)
    letters = list(read_rows(out / "dead_letters"))
    assert (len(letters), len(list(read_rows(out)))) == (bad, COUNT - bad)
    assert 0 < bad < COUNT / 2
    assert {letter["message"].split(": ", 2)[2] for letter in letters} == {"too large; you sent Bearer ***"}


@pytest.mark.slow
def test_an_outage_after_a_thousand_good_calls_stops_the_stage_within_a_few_dozen(serve, judge_key, tmp_path):
    samples = prepare(tmp_path / "many", 400)
    server, run = serve(describe), tmp_path / "run"

    def script(number, body):
        return say(f"caption {digest_of(body)}") if number < 1_000 else fail(400, "the account is closed")

    server.script = script
    config = {"teachers": [teacher(server, concurrency=8)], "captions_each": 3, "shard_size": 32}
    with pytest.warns(UserWarning, match="one model"):
        stopped(run, lambda: caption(run, samples, **config))
    assert len(server.chats) <= 1_000 + 200
    assert len(shards(run / "caption_committee")) >= 9


def test_burst_of_failures_among_many_answers_stops_no_stage(serve, tmp_path):
    server = serve(lambda number, _: fail(400, "no answer") if 210 <= number < 245 else say("an answer"))
    calls = StageCalls(tmp_path, "train_policy")

    async def ask_all() -> list[bool]:
        answered = []
        async with calls.client(Endpoint(url=server.url, model="m", concurrency=1), "judge") as client:
            for number in range(300):
                try:
                    await client.chat([{"role": "user", "content": f"question {number}"}])
                    answered.append(True)
                except ChatError:
                    answered.append(False)
        return answered

    answered = asyncio.run(ask_all())
    calls.close()
    assert (len(answered), answered.count(False)) == (300, 35)
