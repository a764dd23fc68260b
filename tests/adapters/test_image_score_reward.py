"""Scores of endpoints as a reward: fixed weights over several, and never a number where one failed."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest
from image_judge import images_in, main_colour, plain_image
from scripted_server import fail, say

from rubricworks.adapters.image_scores import ImageScoreReward
from rubricworks.errors import UserError
from rubricworks.grading.images.scores import ScoreEndpoint
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.rubrics import ErrorClass, Response

RED, BLUE = (Response.of_image(plain_image(colour)) for colour in ("red", "blue"))


def reward_of(servers, completions, *, weights=None, failures=None):
    async def run():
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(ChatClient(Endpoint(url=server.url, model=f"scorer-{at}"), attempts=1))
                for at, server in enumerate(servers)
            ]
            reward = ImageScoreReward(
                list(zip(clients, weights or [1.0] * len(clients), strict=True)),
                on_error=None if failures is None else failures.append,
            )
            names = [f"s{at}" for at in range(len(completions))]
            rewards = await reward(["a red thing"] * len(completions), completions, sample_id=names)
            asked = [client for client, server in zip(clients, servers, strict=True) if server.chats]
            assert all(client.pinned.prompts == ("image-score-1",) for client in asked)
            return rewards

    return asyncio.run(run())


def scorer(**by_colour):
    """A server whose score depends on the image's colour."""
    return lambda _, body: say(json.dumps({"score": by_colour[main_colour(images_in(body)[-1])]}))


def test_one_endpoint_gives_its_own_scale_and_sees_the_prompt_and_the_image(serve):
    server = serve(scorer(red=31.5, blue=-2))
    assert reward_of([server], [RED, BLUE]) == [31.5, -2.0]
    chat = next(chat for chat in server.chats if images_in(chat.body) == [RED.image])
    text, image = chat.body["messages"][1]["content"]
    assert text["text"] == "<prompt>\na red thing\n</prompt>"
    assert image["type"] == "image_url"


def test_several_endpoints_are_averaged_with_fixed_weights(serve):
    servers = [serve(scorer(red=1, blue=0)), serve(scorer(red=0.25, blue=0.5))]
    assert reward_of(servers, [RED, BLUE], weights=[3.0, 1.0]) == pytest.approx([(3 + 0.25) / 4, 0.5 / 4])


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (fail(400), ErrorClass.TRANSPORT),
        (fail(500), ErrorClass.TRANSPORT),
        (say('{"score": null}'), ErrorClass.MALFORMED),
        (say('{"score": NaN}'), ErrorClass.MALFORMED),
        (say('{"score": "0.5"}'), ErrorClass.MALFORMED),
        (say('{"score": true}'), ErrorClass.MALFORMED),
        (say('{"score": 1e999}'), ErrorClass.MALFORMED),
        (say("0.5"), ErrorClass.MALFORMED),
        (say('{"score": 0.5, "error": "out of memory"}'), ErrorClass.MALFORMED),
        (say("", refusal="I do not rate images"), ErrorClass.REFUSED),
    ],
)
def test_an_endpoint_that_gives_no_number_makes_the_whole_reward_none(serve, quick_retries, answer, error):
    failures = []
    assert reward_of([serve(scorer(red=1, blue=1)), serve([answer])], [RED], failures=failures) == [None]
    (failure,) = failures
    assert (failure.sample_id, failure.judge, failure.error.error_class) == ("s0", "scorer-1", error)
    assert failure.response == RED


def test_an_unreadable_image_is_shown_to_no_endpoint(serve):
    server, failures = serve(scorer(red=1, blue=1)), []
    broken = Response.of_image(b"\x89PNG\r\n\x1a\n broken")
    assert reward_of([server], [broken, RED], failures=failures) == [None, 1.0]
    assert [failure.error.error_class for failure in failures] == [ErrorClass.UNREADABLE]
    assert len(server.chats) == 1


def test_a_text_is_refused_and_so_is_a_reward_without_endpoints(serve):
    with pytest.raises(UserError, match="s0: scorer-0 scores images, and the response is a text"):
        reward_of([serve(scorer(red=1))], ["a text"])
    with pytest.raises(UserError, match="no scoring endpoint"):
        ImageScoreReward([])
    with pytest.raises(ValueError, match="weight"):
        ScoreEndpoint(url="http://a/v1", model="m", weight=0)
