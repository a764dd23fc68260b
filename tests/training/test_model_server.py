"""A model behind OpenAI's chat protocol: what reaches the engine, and what the client gets."""

import asyncio
import socket
import threading
from contextlib import contextmanager

import pytest
from coloured_squares import PROMPT, SMALL, squares
from synthetic_run import picture

from rubricworks.llm import ChatClient, ChatError, Endpoint, image_part, text_part
from rubricworks.training import model_server
from rubricworks.training.config import EngineOptions
from rubricworks.training.engine import load_engine
from rubricworks.training.model_server import served_model
from rubricworks.training.tiny.student import build_student

RED, BLUE = picture("red"), picture("blue")


class EchoEngine:
    """Says what it was asked, and remembers its batches; it cannot read the word `boom`."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.closed = threading.Event()

    def continue_answers(self, batch, others_wait, on_answer):
        self.batches.append([asked.limit for asked in batch])
        if "boom" in [asked.prompt for asked in batch]:
            raise RuntimeError("out of memory")
        for number, asked in enumerate(batch):
            on_answer(number, self.said(asked.image, asked.prompt), 2)
        return [None] * len(batch)

    def said(self, image, prompt):
        if isinstance(prompt, str):
            return f"{ {None: 'nothing', RED: 'red', BLUE: 'blue'}[image] }: {prompt}"
        assert image is None
        if all(isinstance(turn["content"], str) for turn in prompt):
            return f"nothing: {prompt}"
        names = {(255, 0, 0): "[red]", (0, 0, 255): "[blue]"}
        parts = [part for turn in prompt for part in turn["content"]]
        return " ".join(part["text"] if "text" in part else names[part["image"].getpixel((0, 0))] for part in parts)

    def load(self, model):
        raise AssertionError("these tests serve one model")

    def close(self):
        self.closed.set()


@pytest.fixture
def served(monkeypatch):
    engine = EchoEngine()
    monkeypatch.setattr(model_server, "GenerateEngine", lambda *_, **__: engine)

    @contextmanager
    def serve(host="127.0.0.1"):
        with served_model("some/model", host=host) as server:
            yield engine, server.url

    return serve


def ask(url, *contents, **options):
    async def run():
        endpoint = Endpoint(url=url, model="model", **{"max_tokens": 7, **options})
        async with ChatClient(endpoint, attempts=1) as client:
            calls = (client.chat([{"role": "user", "content": list(content)}]) for content in contents)
            return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(run())


def test_pictures_and_texts_reach_the_engine_in_batches(served):
    with served() as (engine, url):
        questions = [(image_part(image), text_part(f"q{number}")) for number, image in enumerate([RED, BLUE] * 6)]
        replies = ask(url, *questions, (text_part("plain"),))
    expected = [f"{'blue' if number % 2 else 'red'}: q{number}" for number in range(12)]
    assert [reply.raw for reply in replies] == [*expected, "nothing: plain"]
    assert {reply.usage.completion_tokens for reply in replies} == {2}
    assert [limit for batch in engine.batches for limit in batch] == [7] * 13
    assert len(engine.batches) < 13  # what waits goes together
    assert engine.closed.is_set()


def test_a_server_of_every_address_is_reached_by_ipv4_and_ipv6(served):
    with served("::") as (_, url):
        port = url.rpartition(":")[2]
        for address in ("127.0.0.1", *(["[::1]"] if socket.has_dualstack_ipv6() else [])):
            assert ask(f"http://{address}:{port}", (text_part("hello"),))[0].raw == "nothing: hello"


def test_several_pictures_reach_the_engine_in_their_places(served):
    with served() as (_, url):
        [reply] = ask(url, (text_part("is"), image_part(RED), text_part("like"), image_part(BLUE), text_part("?")))
        [broken] = ask(
            url, (image_part(RED), {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}})
        )
    assert reply.raw == "is [red] like [blue] ?"
    assert isinstance(broken, ChatError)
    assert "400" in str(broken)


def test_a_fault_of_the_engine_is_an_error_of_its_request_alone(served):
    with served() as (_, url):
        [fault] = ask(url, (text_part("boom"),))
        [after] = ask(url, (text_part("still there"),))
    assert isinstance(fault, ChatError)
    assert "out of memory" in str(fault)
    assert after.raw == "nothing: still there"


def test_a_conversation_reaches_the_models_own_template_turn_by_turn(served):
    with served() as (_, url):

        async def converse() -> str:
            async with ChatClient(Endpoint(url=url, model="model", max_tokens=7), attempts=1) as client:
                turns = [{"role": "system", "content": "Be strict."}, {"role": "user", "content": [text_part("why")]}]
                return (await client.chat(turns)).raw

        said = asyncio.run(converse())
    assert said == f"nothing: {[{'role': 'system', 'content': 'Be strict.'}, {'role': 'user', 'content': 'why'}]}"


def test_an_answer_as_long_as_its_limit_is_told_to_be_cut(served):
    with served() as (_, url):
        [cut] = ask(url, (text_part("plain"),), max_tokens=2)
    assert isinstance(cut, ChatError)
    assert "ran into the limit of 2 tokens" in str(cut)


class RepeatingEngine(EchoEngine):
    """Goes on with answers of 100 tokens or more until it is told to stop, and makes room for others."""

    def __init__(self) -> None:
        super().__init__()
        self.at_work, self.stopped = threading.Event(), threading.Event()

    def continue_answers(self, batch, others_wait, on_answer):
        self.batches.append([asked.limit for asked in batch])
        self.at_work.set()
        for number, asked in enumerate(batch):
            if asked.limit < 100:
                on_answer(number, self.said(asked.image, asked.prompt), 2)
        endless = [number for number, asked in enumerate(batch) if asked.limit >= 100]
        while endless and not others_wait():
            if self.stopped.wait(0.01):
                for number in endless:
                    on_answer(number, "the end", 49_151)
                return [None] * len(batch)
        return [(*asked.tokens, 1) if number in endless else None for number, asked in enumerate(batch)]


def test_a_model_that_repeats_itself_delays_no_other(monkeypatch):
    engine = RepeatingEngine()
    monkeypatch.setattr(model_server, "GenerateEngine", lambda *_, **__: engine)

    async def asked(url):
        async with ChatClient(Endpoint(url=url, model="model", max_tokens=49_152), attempts=1) as endless:
            long = asyncio.create_task(endless.chat([{"role": "user", "content": "long"}]))
            await asyncio.to_thread(engine.at_work.wait)
            async with ChatClient(Endpoint(url=url, model="model", max_tokens=7), attempts=1) as brief:
                others = [await brief.chat([{"role": "user", "content": f"q{number}"}]) for number in range(3)]
            assert not long.done()
            engine.stopped.set()
            return (await long).raw, [reply.raw for reply in others]

    with served_model("some/model") as server:
        answers = asyncio.run(asked(server.url))
    assert answers == ("the end", ["nothing: q0", "nothing: q1", "nothing: q2"])
    assert engine.batches == [[49_152], *[[49_152, 7]] * 3]


def test_one_server_answers_as_each_checkpoint_that_it_loads(student, tmp_path):
    images = [image for image, _, _ in squares()]
    texts = [text for _, prompt, caption in squares() for text in (prompt, caption)]
    other = build_student(texts, tmp_path / "other", config=SMALL, images=images, seed=4)
    question = (image_part(images[0]), text_part(PROMPT))
    answers = []
    with served_model(student) as server:
        for folder in (student, other, student):
            server.load(folder)
            answers.append(ask(server.url, question, max_tokens=13)[0].raw)
    expected = []
    for folder in (student, other):
        engine = load_engine(folder, EngineOptions(), batch_size=1)
        expected.append(engine(images[:1], [PROMPT], max_new_tokens=13)[0][0])
        engine.close()
    assert expected[0] != expected[1]
    assert answers == [*expected, expected[0]]
