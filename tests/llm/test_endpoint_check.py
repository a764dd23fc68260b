"""What the check of an endpoint before a run makes of the server's list of models."""

import asyncio
import json

import pytest
from scripted_server import Said, say

from rubricworks.errors import UserError
from rubricworks.llm import Endpoint, check_endpoint


def check(serve, max_tokens: int, entry: dict, **options) -> None:
    listed = Said(json.dumps({"object": "list", "data": [{"id": "judge", "object": "model", **entry}]}).encode())
    server = serve(lambda number, body: say("x") if body else listed)
    asyncio.run(check_endpoint(Endpoint(url=server.url, model="judge", max_tokens=max_tokens, **options)))
    assert server.chats == []


@pytest.mark.parametrize("context", [4096, 4000])
def test_answers_that_would_fill_the_servers_context_are_refused(serve, context):
    with pytest.raises(UserError, match=rf"max_tokens is 4096, and the server's context is {context} tokens"):
        check(serve, 4096, {"max_model_len": context})


def test_a_longer_context_an_unknown_one_and_another_limit_pass(serve):
    check(serve, 4096, {"max_model_len": 8192})
    check(serve, 4096, {})
    check(serve, 4096, {"max_model_len": None})
    check(serve, 4096, {"max_model_len": 4096}, extra_body={"max_tokens": 512})
