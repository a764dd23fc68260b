"""Identity of an endpoint: answers by another model are told, or end the run; a resumed run remembers the first."""

import asyncio
import json
import logging

import pytest
from scripted_server import Said, say

from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, Endpoint


def answer(model, fingerprint=None):
    body = json.loads(say("yes").body) | {"model": model, "system_fingerprint": fingerprint}
    return Said(json.dumps(body).encode())


def ask(server, *questions, cache=None, **fields):
    async def run():
        async with ChatClient(
            Endpoint(url=server.url, model="judge", **fields), cache=cache, purpose="judge"
        ) as client:
            return [(await client.chat([{"role": "user", "content": one}])).value for one in questions]

    return asyncio.run(run())


def test_another_model_behind_the_same_name_ends_the_run_where_that_is_asked_for(serve):
    server = serve([answer("judge-2026-01"), answer("judge-2026-01"), answer("judge-2026-06")])
    with pytest.raises(UserError, match="answered as judge-2026-01 before, and now as judge-2026-06") as told:
        ask(server, "a", "b", "c", on_change="refuse")
    assert "set on_change to warn" in str(told.value)


@pytest.mark.parametrize("second", [answer("other"), answer("judge", "fp_2")])
def test_by_default_each_new_identity_is_told_once(serve, caplog, second):
    server = serve([answer("judge", "fp_1"), second, answer("judge", "fp_1"), second])
    with caplog.at_level(logging.WARNING, "rubricworks"):
        assert ask(server, "a", "b", "c", "d") == ["yes"] * 4
    (record,) = caplog.records
    assert "answered as judge (fp_1) before, and now as" in record.message


def test_a_resumed_run_knows_the_identity_of_before(serve, tmp_path):
    server = serve([answer("judge-a"), answer("judge-b")])
    cache = tmp_path / "answers.sqlite"
    ask(server, "a", cache=cache, on_change="refuse")
    assert list(json.loads((tmp_path / "identities.json").read_text()).values()) == [["judge-a", ""]]
    with pytest.raises(UserError, match="answered as judge-a before, and now as judge-b"):
        ask(server, "b", cache=cache, on_change="refuse")


def test_a_server_that_says_nothing_of_itself_is_no_change(serve, caplog):
    body = {name: value for name, value in json.loads(say("yes").body).items() if name != "model"}
    with caplog.at_level(logging.WARNING, "rubricworks"):
        ask(serve([Said(json.dumps(body).encode())]), "a", "b", on_change="refuse")
    assert caplog.records == []
