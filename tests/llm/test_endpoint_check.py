"""Check of an endpoint before a run: the server's list of models, and the colour of a picture."""

import asyncio
import base64
import io
import json

import pytest
from PIL import Image
from scripted_server import Said, fail, say

from rubricworks.cli.world import serve_world
from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, Endpoint, check_endpoint, check_sees_images
from rubricworks.recipe.cluster_configs import distinct_endpoints
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.runs.recipe_checks import check_sources
from rubricworks.stages.cluster.preflight import NamedEndpoint


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


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 422, 429, 500, 501, 503])
def test_a_server_that_keeps_its_list_of_models_passes_if_it_answers_a_chat(serve, status):
    server = serve(lambda number, body: say("pong") if body else fail(status, '{"error": "no list for you"}'))
    asyncio.run(check_endpoint(Endpoint(url=server.url, model="judge")))
    assert len(server.chats) == 1


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (fail(401, "no such key"), "no such key"),
        (Said(b'{"error": {"code": 401, "message": "no such key"}}'), "error 401: no such key"),
        (Said(b"<html>a login page</html>"), "chat-completions protocol"),
    ],
)
def test_server_that_answers_neither_list_nor_chat_is_refused_with_reason(serve, answer, reason):
    server = serve(lambda number, body: answer if body else fail(403, "no list for you"))
    with pytest.raises(UserError, match=reason):
        asyncio.run(check_endpoint(Endpoint(url=server.url, model="judge")))


def test_chat_of_the_check_has_the_endpoints_fields_and_none_it_removes(serve):
    server = serve(lambda number, body: say("pong") if body else fail(404))
    own = {"max_tokens": None, "temperature": None, "seed": None, "max_completion_tokens": 4096}
    asyncio.run(check_endpoint(Endpoint(url=server.url, model="o", extra_body=own)))
    asyncio.run(check_endpoint(Endpoint(url=server.url, model="m")))
    reasoner, other = (request.body for request in server.chats)
    assert reasoner.pop("messages")
    assert reasoner == {"model": "o", "max_completion_tokens": 4096}
    assert other["max_tokens"] == 1


@pytest.mark.parametrize("listed", [[{"id": "judge"}], {"data": [{"id": "judge"}]}])
def test_a_list_of_models_may_be_bare(serve, listed):
    server = serve([Said(json.dumps(listed).encode())])
    asyncio.run(check_endpoint(Endpoint(url=server.url, model="judge")))
    assert server.chats == []


@pytest.mark.parametrize("path", ["/openai/deployments/d", "/openai/deployments/d/", "", "/"])
def test_a_query_of_the_url_goes_with_every_request(serve, path):
    server = serve(lambda number, body: say("pong") if body else fail(404))
    base = f"http://127.0.0.1:{server.port}{path}?api-version=2024-10-21&x=a%20b"
    endpoint = Endpoint(url=base, model="d")
    asyncio.run(check_endpoint(endpoint))

    async def ask():
        async with ChatClient(endpoint) as client:
            return (await client.chat([{"role": "user", "content": "ping"}])).value

    assert asyncio.run(ask()) == "pong"
    stem = path.rstrip("/") or "/v1"
    query = "?api-version=2024-10-21&x=a%20b"
    assert [request.target for request in server.heard] == [
        f"{stem}/models{query}",
        *[f"{stem}/chat/completions{query}"] * 2,
    ]


def test_the_command_that_shows_a_failing_endpoint_has_the_query_at_its_end():
    endpoint = Endpoint(url="http://127.0.0.1:9/openai/deployments/d?api-version=1", model="d")
    with pytest.raises(UserError, match=r'"http://127.0.0.1:9/openai/deployments/d/models\?api-version=1"'):
        asyncio.run(check_endpoint(endpoint))


def asked(serve, answer) -> None:
    server = serve(lambda number, body: answer)
    try:
        asyncio.run(check_sees_images(Endpoint(url=server.url, model="captioner")))
    finally:
        assert len(server.chats) == 1, "one call, whatever comes of it"


VLLM = json.dumps({"error": {"message": "At most 0 image(s) may be provided in one prompt.", "code": 400}})


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (say("Blue"), "answers 'Blue'; give a model that sees"),
        (say("I'm sorry, but I cannot see images."), 'answers "I\'m sorry, but I cannot see images."'),
        (say("<think>There is no picture. I guess purple?</think>It is green."), "answers 'It is green.'"),
        (say("Please provide the picture."), "does not see them: asked for the colour of a purple picture"),
        (fail(400, VLLM), r"takes no images, and is shown some: .*At most 0 image\(s\) may be provided"),
        (fail(500, "image input is not supported - hint: provide the mmproj"), "takes no images"),
    ],
)
def test_a_text_model_is_told_by_the_colour_that_only_the_picture_has(serve, answer, reason):
    with pytest.raises(UserError, match=reason) as caught:
        asked(serve, answer)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        say("Purple"),
        say("The picture is a solid violet square, neither red nor blue."),
        say('{"colour": "magenta"}'),
        say("a circle"),
        say(None, finish="length"),
        fail(429, "slow down"),
        fail(503, "loading"),
    ],
)
def test_who_sees_it_who_says_no_colour_and_who_is_busy_passes(serve, answer):
    asked(serve, answer)


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_server_that_fails_at_pictures_alone_is_told_after_several_calls(serve, status):
    def fail_at_pictures(_, body):
        shown = any(part["type"] != "text" for part in body["messages"][-1]["content"])
        return fail(status, "CUDA error") if shown else say("which picture?")

    server = serve(fail_at_pictures)
    with pytest.raises(UserError, match=rf"answers texts and fails at a picture each time: HTTP {status}"):
        asyncio.run(check_sees_images(Endpoint(url=server.url, model="captioner")))
    assert len(server.chats) > 3


@pytest.mark.usefixtures("quick_retries")
def test_a_server_that_fails_at_the_question_itself_passes(serve):
    server = serve(lambda number, body: fail(500, "not a caption"))
    asyncio.run(check_sees_images(Endpoint(url=server.url, model="captioner")))


@pytest.mark.usefixtures("quick_retries")
def test_a_server_that_fails_at_a_picture_once_passes(serve):
    server = serve(lambda number, body: say("Purple") if number else fail(500, "CUDA error"))
    asyncio.run(check_sees_images(Endpoint(url=server.url, model="captioner")))
    assert len(server.chats) == 2


def test_the_picture_has_the_colour_that_is_asked_for(serve):
    server = serve(lambda number, body: say("purple"))
    asyncio.run(check_sees_images(Endpoint(url=server.url, model="captioner")))
    image, question = server.chats[0].body["messages"][0]["content"]
    picture = Image.open(io.BytesIO(base64.b64decode(image["image_url"]["url"].partition(",")[2])))
    assert len(picture.getcolors()) == 1
    red, green, blue = picture.getpixel((0, 0))
    assert green < red < blue  # between red and blue, nearer to blue
    assert "purple" not in question["text"].lower()


SHOWN = {
    "rubicap-laptop": {"teacher-1", "rubric-writer", "pairwise-judge"},
    "balcaprl-laptop": {"recaptioner", "exam-writer", "assertion-judge", "arena-judge", "fact-judge"},
    "rlr3-laptop": {"question-opener", "checklist-writer-1", "weak-scorer"},
    "evaluate-laptop": {"teacher-1", "teacher-2", "recaptioner", "arena-judge"},
    "rubricrl-ar-laptop": {"picture-judge"},
    "rubricrl-diffusion-laptop": {"picture-judge"},
}
TEXT_ONLY = {"judge", "prompt-rubric-writer", "exam-taker", "checklist-merger", "scorer", "answer-judge"}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_models_of_the_world_see_where_the_recipe_shows_them_images(name, tmp_path):
    world = "world.pictures=1000" if name.startswith("rubricrl") else "world.scenes=40"
    own = () if name.startswith("rubricrl") else ("data.held_out=8", "data.warm_up=8")
    recipe = load_recipe(recipe_path(name), (world, *own))
    shown = {endpoint.endpoint.model for endpoint in distinct_endpoints(recipe) if endpoint.sees_images}
    assert shown >= SHOWN[name]
    assert not shown & TEXT_ONLY
    with serve_world(recipe.world, tmp_path):
        checks = [check for check in check_sources(recipe) if check.name.startswith("endpoint")]
    assert checks
    assert [check for check in checks if check.problem] == []


BLIND = "{url: '${RUBRICWORKS_WORLD_URL}', model: judge}"


@pytest.mark.parametrize(
    ("name", "where", "setting"),
    [
        ("rlr3-laptop", "audit.judge", f"audit.judge={BLIND}"),
        ("evaluate-laptop", "evaluation.models.blind.endpoint", f"evaluation.models.blind.endpoint={BLIND}"),
        ("rubricrl-ar-laptop", "evaluation.scorers.rubric.judge", f"evaluation.scorers.rubric.judge={BLIND}"),
    ],
)
def test_a_blind_model_is_told_wherever_it_is_shown_images(name, where, setting):
    recipe = load_recipe(recipe_path(name), (setting,))
    assert [
        endpoint.where
        for endpoint in distinct_endpoints(recipe)
        if endpoint.sees_images and endpoint.endpoint.model == "judge"
    ] == [where]


def test_a_judge_is_audited_without_images_if_the_settings_show_none():
    recipe = load_recipe(recipe_path("rlr3-laptop"), (f"audit.judge={BLIND}", "audit.settings=[text, targets]"))
    assert [
        endpoint.where
        for endpoint in distinct_endpoints(recipe)
        if not endpoint.sees_images and endpoint.endpoint.model == "judge"
    ]


@pytest.mark.slow
def test_a_judge_of_the_world_that_sees_nothing_is_no_captioner(tmp_path):
    teacher = "committee={teachers: [{url: '${RUBRICWORKS_WORLD_URL}', model: judge}], captions_each: 2}"
    recipe = load_recipe(recipe_path("quickstart"), ("world.scenes=40", "data.held_out=8", "data.warm_up=8", teacher))
    with serve_world(recipe.world, tmp_path):
        problems = {check.name: check.problem for check in check_sources(recipe) if check.problem}
    assert list(problems) == ["endpoint committee.teachers.0"]
    assert "takes no images, and is shown some" in problems["endpoint committee.teachers.0"]


STRONG = "{url: '${RUBRICWORKS_WORLD_URL}', model: judge}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "judge", ["{{type: logprob, judge: {0}}}", "{{type: cascade, cheap: {0}, strong: {0}}}"], ids=["logprob", "cascade"]
)
def test_a_judge_whose_log_probabilities_are_used_is_asked_for_some(judge, tmp_path):
    small = ("world.scenes=40", "data.held_out=8", "data.warm_up=8")
    stand_in, cheap = (
        load_recipe(recipe_path("quickstart"), (*small, f"policy.reward.judge={judge.format(of)}"))
        for of in (STRONG, STRONG.replace("judge", "cheap-judge"))
    )
    with serve_world(stand_in.world, tmp_path):
        problems = {check.name: check.problem for check in check_sources(stand_in) if check.problem}
        assert [check.problem for check in check_sources(cheap) if check.problem] == []
    (problem,) = problems.values()
    assert problem.startswith("the scene world's judge gives no log-probabilities, which credits and confidences")
    assert "${" not in problem


@pytest.mark.parametrize(
    "settings",
    [
        (),
        (f"policy.reward.judge={{type: cascade, cheap: {STRONG}, strong: {STRONG}, repeats: 2}}",),
        ("policy.reward={type: function, function: 'my_rewards:score'}",),
    ],
)
def test_a_judge_whose_log_probabilities_are_not_used_is_not_asked_for_any(settings):
    recipe = load_recipe(recipe_path("quickstart"), settings)
    assert not any(endpoint.logprobs_of for endpoint in distinct_endpoints(recipe))


def test_preflight_asks_a_judge_as_where_its_log_probabilities_are_used(serve):
    def answer(_, body):
        if not body:
            return Said(json.dumps({"data": [{"id": "judge", "object": "model"}]}).encode())
        return fail(400, "logprobs are not supported") if "logprobs" in body else say("{}")

    server = serve(answer)
    judge = Endpoint(url=server.url, model="judge", max_tokens=77)
    named = NamedEndpoint(where="rubric.writer", endpoint=judge.model_copy(update={"max_tokens": 9}), logprobs_of=judge)
    with pytest.raises(UserError, match=r"^judge refuses a question about log-probabilities"):
        named.require()
    assert [chat.body["max_tokens"] for chat in server.chats] == [77]
