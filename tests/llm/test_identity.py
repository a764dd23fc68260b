"""Identity of an endpoint: answers by another model are told, or end the run; a resumed run remembers the first."""

import asyncio
import json
import logging

import pytest
from scripted_server import Said, say

from rubricworks.data import Sample
from rubricworks.errors import UserError
from rubricworks.grading import Grader
from rubricworks.grading.prompts import JUDGE_PROMPT_VERSION
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.llm.identity import Identity, merge_identities, read_identities
from rubricworks.rubrics import Criterion, Rubric

UNSET = {"revision": "", "others": []}


def answer(model, fingerprint=None):
    body = json.loads(say("yes").body) | {"model": model, "system_fingerprint": fingerprint}
    return Said(json.dumps(body).encode())


def ask(server, *questions, cache=None, **fields):
    async def run():
        async with ChatClient(
            Endpoint(url=server.url, model="judge", **fields), cache=cache, purpose="judge"
        ) as client:
            return [(await client.chat([{"role": "user", "content": question}])).value for question in questions]

    return asyncio.run(run())


def test_another_model_behind_the_same_name_ends_the_run_where_that_is_asked_for(serve):
    server = serve([answer("judge-2026-01"), answer("judge-2026-01"), answer("judge-2026-06")])
    with pytest.raises(UserError, match="answered as judge-2026-01 before, and now as judge-2026-06") as told:
        ask(server, "a", "b", "c", on_change="refuse")
    assert "set on_change to warn" in str(told.value)


def test_the_answer_that_ends_the_run_is_paid_for_too(serve):
    server = serve([answer("judge-2026-01"), answer("judge-2026-06")])

    async def run():
        async with ChatClient(Endpoint(url=server.url, model="judge", on_change="refuse", prices=(0.0, 1.0))) as client:
            await client.chat([{"role": "user", "content": "a"}])
            first = client.totals.as_dict()
            with pytest.raises(UserError):
                await client.chat([{"role": "user", "content": "b"}])
            return first, client.totals.as_dict()

    first, both = asyncio.run(run())
    assert first["cost"] > 0
    names = ("calls", "requests", "prompt_tokens", "completion_tokens", "cost")
    assert [both[name] for name in names] == [2 * first[name] for name in names]


@pytest.mark.parametrize("second", [answer("other"), answer("judge", "fp_2")])
def test_by_default_each_new_identity_is_told_once(serve, caplog, second):
    server = serve([answer("judge", "fp_1"), second, answer("judge", "fp_1"), second])
    with caplog.at_level(logging.WARNING, "rubricworks"):
        assert ask(server, "a", "b", "c", "d") == ["yes"] * 4
    (record,) = caplog.records
    assert "answered as judge (fp_1) before, and now as" in record.message


def test_identities_that_a_warning_let_pass_stay_in_the_file(serve, tmp_path):
    cache, alias = tmp_path / "answers.sqlite", [answer("judge-b"), answer("judge-a"), answer("judge-b")]
    ask(serve(alias), "a", "b", "c", cache=cache)
    (entry,) = read_identities(tmp_path / "identities.json")["judge"]
    assert (entry.identity, entry.others) == (Identity("judge-b"), (Identity("judge-a"),))
    merge_identities(tmp_path / "identities.json", (tmp_path / "identities.json").read_bytes())
    assert read_identities(tmp_path / "identities.json")["judge"] == [entry]


def test_a_resumed_run_knows_the_identity_of_before(serve, tmp_path):
    server = serve([answer("judge-a"), answer("judge-b")])
    cache = tmp_path / "answers.sqlite"
    ask(server, "a", cache=cache, on_change="refuse")
    (entry,) = json.loads((tmp_path / "identities.json").read_text()).values()
    assert entry == {"identity": ["judge-a", ""], "prompts": [], **UNSET}
    with pytest.raises(UserError, match="answered as judge-a before, and now as judge-b"):
        ask(server, "b", cache=cache, on_change="refuse")


def test_a_server_that_says_nothing_of_itself_is_no_change(serve, caplog):
    body = {name: value for name, value in json.loads(say("yes").body).items() if name != "model"}
    with caplog.at_level(logging.WARNING, "rubricworks"):
        ask(serve([Said(json.dumps(body).encode())]), "a", "b", on_change="refuse")
    assert caplog.records == []


def note(folder, *versions, **fields):
    client = ChatClient(Endpoint(url="http://unused", model="judge", **fields), cache=folder / "answers.sqlite")
    for version in versions:
        client.note_prompt(version)


def test_another_version_of_a_prompt_is_told_and_another_prompt_is_not(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "rubricworks"):
        note(tmp_path, "judge-2", "scoring-1", "judge-2")
        assert caplog.records == []
        note(tmp_path, "judge-3", "judge-3")
    (record,) = caplog.records
    assert "was asked by prompt judge-2 before, and now by judge-3" in record.message
    (entry,) = json.loads((tmp_path / "identities.json").read_text()).values()
    assert entry == {"identity": None, "prompts": ["judge-2", "scoring-1", "judge-3"], **UNSET}


def test_a_refused_version_of_a_prompt_is_not_pinned(tmp_path):
    note(tmp_path, "judge-2", on_change="refuse")
    with pytest.raises(UserError, match=r"now by judge-3; .* Start a new run, or set on_change to warn"):
        note(tmp_path, "judge-3", on_change="refuse")
    note(tmp_path, "judge-2", on_change="refuse")


def test_a_grading_pins_the_prompt_that_it_judges_by(serve, tmp_path):
    rubric = Rubric(criteria=(Criterion(criterion="red", weight=1),))
    verdict = json.dumps({"verdicts": [{"id": 1, "reasoning": "r", "score": 1}]})

    async def grade():
        async with ChatClient(
            Endpoint(url=serve([say(verdict)]).url, model="judge"), cache=tmp_path / "answers.sqlite"
        ) as client:
            return await Grader(client).grade(Sample(sample_id="s"), "a red circle", rubric)

    assert asyncio.run(grade()).credits == [1.0]
    (entry,) = json.loads((tmp_path / "identities.json").read_text()).values()
    assert entry == {"identity": ["m", ""], "prompts": [JUDGE_PROMPT_VERSION], **UNSET}
