"""The raw exchange with a judge: requests as a real grader sent them, or made again; no scripts, no secrets."""

import asyncio
import hashlib
import json
import re
from html import unescape

import pytest
from scripted_server import ScriptedServer, fail, say
from served_api import ask, exchange, served, wait_for
from trained_run import NAMES, STAGE, png, rubric, write_run, write_shard, write_table

from rubricworks.data.tables import Sample
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.llm.cache import CACHE_FILE
from rubricworks.platform_api.services.judgements.labels import response_digest
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.recipe.cluster_configs import recipe_yaml
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.rubrics import Rubric

SCRIPT = "<script>alert(1)</script>"
SECRET = "https://anna:pa55word@host/v1"
TEXT = f"a star {SCRIPT}"
OTHER = "a star that nobody cached"
LOST = "a star whose call failed"
RUBRIC = rubric(*NAMES, rule=f"Passes if {SCRIPT} it is as on {SECRET}")
JUDGE, WARM = "{url: http://j/v1, model: judge}", "{url: http://j/v1, model: judge, temperature: 0.5}"
ENDPOINT = {"model": "judge", "max_tokens": 77, "extra_body": {"api_key": "hunter2hunter2"}}


def answer(_, body):
    """All criteria are met, but where the call fails."""
    if LOST in json.dumps(body["messages"]):
        return fail(400, "no")
    scores = [{"id": at, "reasoning": f"words {at} {SECRET}", "score": 1} for at in range(1, len(NAMES) + 1)]
    return say(json.dumps({"verdicts": scores}))


def graded(response, card):
    verdicts = [verdict.model_dump(mode="json") for verdict in card.verdicts]
    return {"step": 1, "sample_id": "a", "response": response, "reward": None, "verdicts": verdicts, "raw": card.raw}


@pytest.fixture(scope="module")
def judge():
    """The judge's server."""
    server = ScriptedServer(answer)
    yield server
    server.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory, judge):
    folder = tmp_path_factory.mktemp("runs")
    run = write_run(folder)
    endpoint = Endpoint(url=judge.url, **ENDPOINT)
    recipe = recipe_path("quickstart").read_text()
    options = endpoint.model_dump_json(exclude_defaults=True)
    (run / "recipe.yaml").write_text(re.sub(r"&judge \{.*\}", f"&judge {options}", recipe))
    failed = []

    async def grade(*responses):
        client = ChatClient(endpoint, cache=run / CACHE_FILE)
        grader, sample = Grader(client, on_error=failed.append), Sample(sample_id="a", prompt="?")
        cards = [await grader.grade(sample, response, Rubric.model_validate(RUBRIC)) for response in responses]
        await client.close()
        return cards

    met, lost = asyncio.run(grade(TEXT, LOST))
    write_shard(run, 0, [graded(TEXT, met), graded(OTHER, met), graded(LOST, lost)])
    for table in ("scorecards", "rollouts"):
        (run / STAGE / table / "part-00001.parquet").unlink()
    letter = {"sample_id": "a", "stage": STAGE, "reason": "transport", "request": failed[0].error.request}
    write_table(run / STAGE / "dead_letters", "dead_letters", [letter])
    write_table(run / "synthesize_rubrics", "rubrics", [{"sample_id": "a", "rubric": json.dumps(RUBRIC)}])
    with served(ApiSettings(storage=str(folder), index_seconds=0.05)) as url:
        wait_for(lambda: ask(f"{url}/api/v1/runs/today-1/stages/{STAGE}/groups")[1].get("items"))
        yield url


def exchange_about(url, response, place=f"today-1/stages/{STAGE}"):
    return ask(f"{url}/api/v1/runs/{place}/groups/1/a/exchange?response={response_digest(response)}")


def page_about(url, response, place=f"today-1/rollouts/{STAGE}"):
    place = f"{url}/runs/{place}/1/a/exchange?response={response_digest(response)}"
    status, _, body = exchange(place)
    assert status == 200
    return body.decode()


def test_a_request_in_the_call_cache_is_shown_as_it_was_sent(url, judge):
    (call,) = exchange_about(url, TEXT)[1]["calls"]
    body = judge.heard[0].body
    assert (call["origin"], call["judge"], call["prompt_version"]) == ("call cache", "judge", "judge-2")
    texts = [
        {"role": message["role"], "content": "".join(part["text"] for part in message["parts"])}
        for message in call["messages"]
    ]
    assert texts == json.loads(json.dumps(body["messages"]).replace("anna:pa55word@", "***@"))
    rest = {name: value for name, value in body.items() if name != "messages"}
    assert call["options"] == rest | {"api_key": "***"}
    assert json.loads(call["answer"])["verdicts"][0]["reasoning"] == "words 1 https://***@host/v1"
    assert call["options"]["max_tokens"] == 77


def test_a_request_of_which_nothing_is_left_is_called_reconstructed(url):
    (call,) = exchange_about(url, OTHER)[1]["calls"]
    assert call["origin"] == "reconstructed"
    assert OTHER in call["messages"][-1]["parts"][0]["text"]
    assert "Reconstructed." in page_about(url, OTHER)
    assert "Reconstructed." not in page_about(url, TEXT)


def test_a_request_that_a_dead_letter_names_is_shown_with_it(url):
    (call,) = exchange_about(url, LOST)[1]["calls"]
    assert (call["origin"], call["answer"]) == ("dead letter", "")
    assert "dead letter" in page_about(url, LOST)


def test_an_image_is_shown_in_the_place_where_it_was_sent(url, tmp_path):
    run, stage, image = write_run(tmp_path), "train_generator", png("blue")
    digest = hashlib.sha256(image).hexdigest()
    (run / "recipe.yaml").write_text(recipe_path("rubricrl-ar-laptop").read_text())
    (run / stage / "images" / digest[:2]).mkdir(parents=True)
    (run / stage / "images" / digest[:2] / f"{digest}.png").write_bytes(image)
    row = {"step": 1, "sample_id": "a", "response": digest, "response_type": "image/png"}
    verdicts = [{"criterion": name, "credit": 1.0} for name in NAMES]
    card = {"sample_id": "a", "response": {"digest": digest, "media_type": "image/png"}, "judge": "picture-judge"}
    scorecard = {"judge": "judge", "scorecard": json.dumps(card | {"verdicts": verdicts, "raw": ["{}"]})}
    write_table(run / stage / "rollouts", "rollouts", [row])
    write_table(run / stage / "scorecards", "scorecards", [row | scorecard])
    write_table(run / "synthesize_rubrics", "rubrics", [{"sample_id": "a", "rubric": json.dumps(RUBRIC)}])
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.05)) as other:
        wait_for(lambda: exchange_about(other, digest, f"today-1/stages/{stage}")[0] == 200)
        result = exchange_about(other, digest, f"today-1/stages/{stage}")[1]
        parts = [part for message in result["calls"][0]["messages"] for part in message["parts"]]
        assert [part["image"] for part in parts if part["image"]] == ["response"]
        assert "base64" not in json.dumps(result)
        shown = page_about(other, digest, f"today-1/rollouts/{stage}")
        assert shown.count(f'images/{digest}?media_type=image%2Fpng"') == 2, "the response, and where it was sent"
        assert "base64" not in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reward", "asked"),
    [
        (f"{{type: rubric, judge: {{type: panel, of: [{JUDGE}, {WARM}]}}}}", [0.0, 0.5]),
        (f"{{type: rubric, judge: {JUDGE}, call_per: criterion}}", [0.0] * len(NAMES)),
        (f"{{type: rubric, judge: {{type: cascade, cheap: {JUDGE}, strong: {JUDGE}, repeats: 2}}}}", [0.0]),
    ],
)
def test_each_call_of_each_judge_has_its_own_answer(tmp_path, reward, asked):
    run, answers = write_run(tmp_path), [f"answer {at}" for at in range(len(asked) + 1)]
    recipe = load_recipe(recipe_path("quickstart"), [f"policy.reward={reward}"])
    (run / "recipe.yaml").write_text(recipe_yaml(recipe))
    card = {"sample_id": "a", "response": "a star", "judge": "judge", "raw": answers}
    verdicts = [{"criterion": name, "credit": 1.0} for name in NAMES]
    row = {"step": 1, "sample_id": "a", "response": "a star"}
    for table in ("rollouts", "scorecards"):
        (run / STAGE / table / "part-00001.parquet").unlink()
    write_table(run / STAGE / "rollouts", "rollouts", [row])
    scorecard = {"judge": "judge", "scorecard": json.dumps(card | {"verdicts": verdicts})}
    write_table(run / STAGE / "scorecards", "scorecards", [row | scorecard])
    write_table(run / "synthesize_rubrics", "rubrics", [{"sample_id": "a", "rubric": json.dumps(RUBRIC)}])
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.05)) as url:
        wait_for(lambda: exchange_about(url, "a star")[0] == 200)
        result = exchange_about(url, "a star")[1]
    assert [call["options"]["temperature"] for call in result["calls"]] == asked
    assert [call["answer"] for call in result["calls"]] == answers[:-1]
    assert (result["answers"], "depend on the first ones" in result["problem"]) == (answers[-1:], True)


def test_a_run_whose_recipe_is_not_read_any_more_shows_the_answers_alone(url, tmp_path):
    write_run(tmp_path)
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.05)) as other:
        wait_for(lambda: ask(f"{other}/api/v1/runs/today-1/stages/{STAGE}/groups")[1].get("items"))
        result = exchange_about(other, "a star")[1]
        assert (result["calls"], result["answers"]) == ([], ["{}"])
        assert result["problem"]
        assert exchange_about(other, "no such")[0] == 404


def test_scripts_come_as_text_and_secrets_not_at_all(url):
    body = page_about(url, TEXT)
    assert "<script>alert" not in body
    assert "<script>alert(1)" in unescape(body), "the response"
    assert "&lt;script>alert(1)" in unescape(body), "the response in the prompt"
    assert r"\u003cscript>alert(1)" in unescape(body), "the rubric in the prompt"
    group = f"runs/today-1/rollouts/{STAGE}/1/a", f"api/v1/runs/today-1/stages/{STAGE}/groups/1/a"
    texts = [exchange(f"{url}/{place}")[2].decode() for place in group]
    assert all("words 1" in text for text in texts)
    for text in (body, json.dumps(exchange_about(url, TEXT)[1]), *texts):
        assert "pa55word" not in text
        assert "hunter2" not in text
