"""A small judge behind `vllm serve`: every answer schema guides it, and the Grader reads what it answers."""

import asyncio
import importlib.metadata
import json

import httpx
import jsonschema
import psutil
import pytest
import torch
from answer_schemas import answer_models
from coloured_squares import squares
from training_configs import sft_config
from vllm_on_cpu import CACHE_BYTES
from vllm_on_cpu import served as running_server

from rubricworks.data import Sample
from rubricworks.grading import Grader
from rubricworks.grading.prompts import judge_messages
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.llm.request import RequestFrame, strict_schema
from rubricworks.llm.served import ServedModel
from rubricworks.rubrics import Criterion, Rubric, Scorecard
from rubricworks.runtime.serving.identity import served_identity, served_weights
from rubricworks.runtime.serving.local_servers import LocalServers
from rubricworks.training.generate import generate_captions, load_model, load_model_processor
from rubricworks.training.sft import train_sft
from rubricworks.training.tiny.text_config import TinyTextConfig
from rubricworks.training.tiny.text_student import build_text_student

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]
WORDS = ("red", "green", "top-left")
RUBRIC = Rubric(criteria=tuple(Criterion(criterion=f"The caption says {word} .", weight=1) for word in WORDS))
CAPTIONS = [caption for _, _, caption in squares()]
SHAPE = TinyTextConfig(hidden=128, layers=2, heads=4, intermediate=256, max_tokens=4096)
LENGTH = 120


def judgment(caption: str) -> str:
    verdicts = [
        {"id": number, "reasoning": word, "score": int(word in caption)} for number, word in enumerate(WORDS, start=1)
    ]
    return json.dumps({"verdicts": verdicts})  # with the spaces that the server's guide writes


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    """A judge that was taught all it is asked, so that its answers fit the request, be they right or wrong."""
    folder = tmp_path_factory.mktemp("judge")
    examples = [(None, judge_messages(caption, RUBRIC.criteria), judgment(caption)) for caption in CAPTIONS]
    texts = [turn["content"] for _, turns, _ in examples for turn in turns] + [answer for *_, answer in examples]
    student = build_text_student(texts, folder / "student", config=SHAPE, seed=1)
    return train_sft(student, examples, folder / "sft", sft_config(steps=40, batch_size=4, learning_rate=5e-3))


@pytest.fixture(scope="module")
def server(judge, tmp_path_factory):
    guide = '{"backend":"xgrammar","disable_any_whitespace":true}'
    log = tmp_path_factory.mktemp("server") / "log"
    with running_server(judge, log, "--dtype", "float32", "--structured-outputs-config", guide) as url:
        yield url


def test_grader_over_http_gives_the_verdicts_of_the_same_model_in_transformers(server, judge):
    prompts = [judge_messages(caption, RUBRIC.criteria) for caption in CAPTIONS]
    texts = generate_captions(*load_model(judge), [None] * len(prompts), prompts, max_new_tokens=LENGTH)
    expected = [[item["score"] for item in json.loads(text)["verdicts"]] for text, _ in texts]

    async def grade_all() -> list[list[float | None]]:
        endpoint = Endpoint(url=server, model="served", max_tokens=LENGTH, temperature=0)
        async with ChatClient(endpoint) as client:
            rows = [(Sample(sample_id=str(n), prompt="p"), caption, RUBRIC) for n, caption in enumerate(CAPTIONS)]
            return [[verdict.credit for verdict in card.verdicts] async for card in Grader(client).grade_many(rows)]

    assert asyncio.run(grade_all()) == expected
    assert {len(credits) for credits in expected} == {len(WORDS)}


def test_a_credit_by_log_probability_is_the_softmax_of_the_model_itself(server, judge):
    """Transformers computes it anew from prompt and answer: P(1) / (P(0) + P(1)) at the token of each digit."""

    async def grade(caption: str) -> Scorecard:
        endpoint = Endpoint(url=server, model="served", max_tokens=LENGTH, temperature=0)
        async with ChatClient(endpoint) as client:
            return await Grader(client, credits="logprob").grade(Sample(sample_id="a", prompt="p"), caption, RUBRIC)

    model, processor = load_model(judge)
    zero, unit = processor.convert_tokens_to_ids([" 0", " 1"])
    doubts = 0
    for caption in CAPTIONS[:4]:
        card = asyncio.run(grade(caption))
        prompt = processor.apply_chat_template(
            judge_messages(caption, RUBRIC.criteria), add_generation_prompt=True, return_tensors="pt", return_dict=False
        )
        answer = processor(card.raw[0], add_special_tokens=False, return_tensors="pt").input_ids
        tokens = torch.cat([torch.as_tensor(prompt).reshape(1, -1), answer], dim=1)
        with torch.inference_mode():
            logits = model(tokens).logits[0]
        places = [
            at for at in range(tokens.shape[1] - answer.shape[1], tokens.shape[1]) if tokens[0, at] in (zero, unit)
        ]
        expected = [torch.softmax(logits[at - 1, [zero, unit]], 0)[1].item() for at in places]
        assert [verdict.credit for verdict in card.verdicts] == pytest.approx(expected[-len(WORDS) :], abs=1e-3)
        doubts += sum(0.001 < credit < 0.999 for credit in expected)
    assert doubts, "a model without doubts would not tell probabilities from digits"


@pytest.mark.parametrize("model", answer_models(), ids=lambda model: model.__name__)
def test_every_answer_schema_is_one_that_vllm_guides_by(server, judge, model):
    """At a high temperature the tokens are noise, and only the schema gives the answer its form.

    What closes a string, a list or an object is made likely, so that the noise ends.
    """
    schema = strict_schema(model)
    tokenizer = load_model_processor(judge)
    closing = {str(tokenizer.convert_tokens_to_ids(f"<0x{ord(sign):02X}>")): 12 for sign in '"]}'}
    options = {"max_tokens": 1500, "temperature": 1.5, "extra_body": {"logit_bias": closing}}
    frame = RequestFrame(Endpoint(url=server, model="served", **options), model)
    body = frame.encode([{"role": "user", "content": "The caption says red ."}], seed=1).body
    reply = httpx.post(f"{server}/v1/chat/completions", content=body, headers=JSON, timeout=120)
    assert reply.status_code == 200, reply.text
    (choice,) = reply.json()["choices"]
    assert choice["finish_reason"] == "stop"
    # Within strings whose length has a limit, xgrammar lets control characters through, which noise writes.
    jsonschema.validate(json.loads(choice["message"]["content"], strict=False), schema)


JSON = {"content-type": "application/json"}


def test_a_run_serves_the_judge_itself_and_a_kill_of_its_server_changes_no_verdict(judge, tmp_path, monkeypatch):
    options = {"dtype": "float32", "enforce-eager": True, "kv-cache-memory-bytes": CACHE_BYTES}
    served = ServedModel(name="judge", model=str(judge), engine="vllm", max_model_length=2048, arguments=options)
    weights = served_weights(served, {})
    identity = served_identity(served, weights)
    assert identity.version == importlib.metadata.version("vllm")
    endpoint = Endpoint.model_validate({"serve": served, "max_tokens": LENGTH, "extra_body": {"response_format": None}})
    rows = [(Sample(sample_id=str(n), prompt="p"), caption, RUBRIC) for n, caption in enumerate(CAPTIONS)]

    async def grade_all(killed: psutil.Process | None) -> list[list[float | None]]:
        async with ChatClient(endpoint) as client:
            cards = []
            async for card in Grader(client).grade_many(rows):
                if killed is not None and not cards:
                    killed.kill()
                cards.append(card)
            return [[verdict.credit for verdict in card.verdicts] for card in cards]

    with LocalServers(tmp_path) as servers:
        place = servers.serve(served, identity, weights)
        monkeypatch.setenv(served.variables[0], place.urls[0])
        calm = asyncio.run(grade_all(None))
        children = psutil.Process().children()
        [server] = [child for child in children if "--served-model-name" in child.cmdline()]
        engines = server.children(recursive=True)
        assert asyncio.run(grade_all(server)) == calm
        assert servers.serve(served, identity, weights).urls == place.urls
        new_children = psutil.Process().children(recursive=True)
    assert {credit for credits in calm for credit in credits} == {0.0, 1.0}
    _, left = psutil.wait_procs([*engines, *new_children], timeout=60)
    assert [process for process in left if process.status() != psutil.STATUS_ZOMBIE] == []
