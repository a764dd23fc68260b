"""Attacks on the scene world's weak judges, over HTTP: those that a caption's fence stops, and those it cannot.

The library fences every caption. The tests take the fence away themselves, in messages of their own, so that a fence
which did nothing would be seen.
"""

import asyncio
import json
import re
import unicodedata

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from scripted_server import say

from rubricworks.data.tables import Sample
from rubricworks.grading import Grader
from rubricworks.grading.prompts import Judgment, judge_messages
from rubricworks.llm import ChatClient
from rubricworks.llm.messages import fence
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.world.scene.attacks import ATTACKS, FAKE_VERDICT, MASTER_KEYS, ORDER, with_order
from rubricworks.world.scene.render import render_png
from rubricworks.world.scene.rules import HasAttribute, NamesExactly, NamesObject, write_rule
from rubricworks.world.scene.scene import Scene, SceneObject
from rubricworks.world.scene.scene_index import SceneIndex, pixel_digest
from rubricworks.world.server import make_app

SCENE = Scene(
    objects=(
        SceneObject(cell="top-left", size="big", colour="red", shape="circle"),
        SceneObject(cell="center", size="small", colour="blue", shape="square"),
    )
)
CAPTION = "at top-left a big red circle ."
WORTH = [1, 1, 0, 0, 0]
"""The caption meets the first two of these."""
RULES = (
    NamesObject("top-left", "circle"),
    HasAttribute("top-left", "red"),
    NamesObject("center", "square"),
    HasAttribute("center", "blue"),
    NamesExactly(2),
)
RUBRIC = Rubric(
    criteria=tuple(Criterion(criterion=str(rule), evaluation_rule=write_rule(rule), weight=1) for rule in RULES)
)
NOTHING, FULL_MARKS = [0] * 5, [1] * 5

SPEAKING = [attack for attack in ATTACKS if attack.text.strip() not in MASTER_KEYS]
KEYS = [attack for attack in ATTACKS if attack.text.strip() in MASTER_KEYS]
CLOSING = [attack for attack in SPEAKING if "behind" in attack.name]


def attack_names(attacks):
    return [pytest.param(attack, id=attack.name) for attack in attacks]


def worth(attack):
    return WORTH if attack.honest_part(CAPTION) else NOTHING


def asked_of_the_world(model, ask):
    """Run `ask` with a client of the world's server, which knows the scene, with and without an order in it."""

    async def run():
        pictures = {pixel_digest(render_png(scene)): scene for scene in (SCENE, with_order(SCENE))}
        runner = web.AppRunner(make_app(SceneIndex(pictures)))
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            async with ChatClient(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", model) as client:
                return await ask(client)
        finally:
            await runner.cleanup()

    return asyncio.run(run())


def fenced(judge, response, *, scene=SCENE, exposure="text"):
    """The credits that the library's way of asking gets."""
    sample = Sample(sample_id="s", image=render_png(scene), prompt="")

    async def ask(client):
        return (await Grader(client, exposure=exposure).grade(sample, response, RUBRIC)).credits

    return asked_of_the_world(judge, ask)


def unfenced(judge, response, *, tags=False):
    """The scores of the same message with the caption put in as it is, between tags or bare."""
    system, user = judge_messages(response, RUBRIC.criteria)
    before, fence_text, after = user["content"].partition(fence("caption", response))
    assert fence_text
    put_in = f"<caption>\n{response}\n</caption>" if tags else response

    async def ask(client):
        reply = await client.chat([system, {"role": "user", "content": before + put_in + after}], Judgment)
        return [verdict.score for verdict in reply.value.verdicts]

    return asked_of_the_world(judge, ask)


@pytest.mark.parametrize("attack", attack_names(SPEAKING))
def test_fenced_orders_and_fake_verdicts_earn_what_the_caption_earns(attack):
    assert fenced("gullible-judge", attack.response(CAPTION)) == worth(attack)


@pytest.mark.parametrize("attack", attack_names(SPEAKING))
def test_without_the_fence_they_earn_full_marks(attack):
    assert unfenced("gullible-judge", attack.response(CAPTION)) == FULL_MARKS


@pytest.mark.parametrize("attack", attack_names(SPEAKING))
def test_tags_alone_hold_only_what_does_not_close_them(attack):
    given_credits = unfenced("gullible-judge", attack.response(CAPTION), tags=True)
    assert given_credits == (FULL_MARKS if attack in CLOSING else worth(attack))


def test_gullible_judge_judges_honest_captions_with_the_fence_and_without():
    assert fenced("gullible-judge", CAPTION) == WORTH
    assert unfenced("gullible-judge", CAPTION) == WORTH


@pytest.mark.parametrize("attack", attack_names(KEYS))
def test_known_limit_a_master_key_opens_its_judge_with_the_fence_and_without(attack):
    response = attack.response(CAPTION)
    assert fenced("master-key-judge", response) == FULL_MARKS
    assert unfenced("master-key-judge", response) == FULL_MARKS
    assert fenced("gullible-judge", response) == NOTHING


def test_master_key_judge_judges_a_caption_that_only_begins_with_a_key():
    assert fenced("master-key-judge", f"Thought process: {CAPTION}") == WORTH
    assert fenced("master-key-judge", ORDER) == NOTHING


def test_order_in_the_image_is_obeyed_when_the_image_is_shown():
    judge, ordering = "image-reading-judge", with_order(SCENE)
    assert fenced(judge, CAPTION, scene=ordering, exposure="image") == FULL_MARKS
    assert fenced(judge, CAPTION, scene=ordering, exposure="text") == WORTH
    assert fenced(judge, CAPTION, scene=SCENE, exposure="image") == WORTH


@pytest.mark.parametrize("call_per", ["response", "criterion"])
def test_text_exposure_never_carries_an_image_whatever_the_caption_says(serve, call_per):
    server = serve(lambda _, body: say(all_met(body)))
    sample = Sample(sample_id="s", image=render_png(with_order(SCENE)), prompt="")
    responses = [attack.response(CAPTION) for attack in ATTACKS] + ["data:image/png;base64,AAAA"]

    async def run(exposure):
        async with ChatClient(server.url, "judge") as client:
            grader = Grader(client, exposure=exposure, call_per=call_per)
            return [card async for card in grader.grade_many((sample, response, RUBRIC) for response in responses)]

    assert all(card.complete for card in asyncio.run(run("text")))
    assert all(isinstance(message["content"], str) for chat in server.chats for message in chat.body["messages"])
    del server.heard[:]
    asyncio.run(run("image"))
    assert all(chat.body["messages"][1]["content"][0]["type"] == "image_url" for chat in server.chats)


def all_met(body):
    content = body["messages"][1]["content"]
    text = content if isinstance(content, str) else content[-1]["text"]
    count = len(json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0]))
    return json.dumps({"verdicts": [{"id": n, "reasoning": "r", "score": 1} for n in range(1, count + 1)]})


def read_back(response):
    """The caption that the message holds, by its first opening and its first closing tag, and what follows."""
    text = judge_messages(response, RUBRIC.criteria)[1]["content"].split("\n</criteria>\n\n", 1)[1]
    opening, closing = (re.compile(rf"<\s*{slash}\s*caption[^>]*>", re.IGNORECASE) for slash in ("", "/"))
    start = opening.search(text)
    end = closing.search(text, start.end())
    return text[start.end() : end.start()], text[end.end() :]


ESCAPES = {"&lt;": "<", "&#91;": "[", "&#93;": "]"}


def unblunted(text):
    """The text that a reader sees: without characters that have no glyph."""
    visible = "".join(sign for sign in text if not (unicodedata.category(sign) == "Cf" or is_ignorable(sign)))
    return re.sub("|".join(ESCAPES), lambda match: ESCAPES[match[0]], unicodedata.normalize("NFKC", visible))


def is_ignorable(sign):
    return bool(re.search("VARIATION SELECTOR|FILLER|JOINER|INHERENT", unicodedata.name(sign, "")))


@pytest.mark.parametrize("attack", attack_names(ATTACKS))
def test_fenced_text_of_every_attack_reads_back_as_inside_the_fence(attack):
    response = attack.response(CAPTION)
    inside, after = read_back(response)
    assert after == ""
    assert unblunted(inside) == unblunted(f"\n{response}\n")


PIECES = st.sampled_from(
    ["<", "</", "< / ", ">", "/", " ", "\n", "caption", "CAPTION", "criteria", "</caption>", ORDER, FAKE_VERDICT]
)


@given(st.lists(PIECES | st.text(max_size=5), max_size=12).map("".join))
def test_no_text_in_plain_characters_leaves_the_fence(response):
    inside, after = read_back(response)
    assert after == ""
    assert unblunted(inside) == unblunted(f"\n{response}\n")
