"""Answers that are no JSON object, read by a function: the same repair turns, cache and errors. A real server."""

import asyncio

import pytest
from scripted_server import say

from rubricworks.llm import ChatClient, ChatError
from rubricworks.rubrics import ErrorClass

ASK = [{"role": "user", "content": "how many?"}]


def read_count(text: str) -> int:
    _, separator, count = text.partition("count: ")
    if not separator:
        raise ValueError("there is no count in it")
    return int(count)


def ask(server, **options):
    async def run():
        async with ChatClient(server.url, "m", **options) as client:
            return await client.chat(ASK, read_count)

    return asyncio.run(run())


def test_function_reads_the_answer_and_what_it_refuses_is_sent_back_for_repair(serve):
    server = serve([say("three, I think"), say("count: 3")])
    assert ask(server).value == 3
    complaint = server.chats[1].body["messages"][-1]["content"]
    assert complaint.startswith("That answer cannot be used: there is no count in it.")
    assert "JSON" not in complaint
    assert "response_format" not in server.chats[0].body


def test_answer_that_the_function_never_takes_is_malformed(serve):
    server = serve([say("three")])
    with pytest.raises(ChatError, match="there is no count in it") as caught:
        ask(server)
    assert caught.value.error_class is ErrorClass.MALFORMED
    assert (len(server.chats), caught.value.raw) == (3, "three")


def test_kept_answer_is_read_by_the_function_again(serve, tmp_path):
    server = serve([say("count: 4")])
    replies = [ask(server, cache=tmp_path / "answers.sqlite") for _ in range(2)]
    assert [(reply.value, reply.cached) for reply in replies] == [(4, False), (4, True)]
    assert len(server.chats) == 1
