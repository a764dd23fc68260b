"""The parts of the benchmark of grading: each starts its judges and yields lines of the table."""

import asyncio
import json
import multiprocessing
import os
import random
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.canned_judge import canned_judge
from benchmarks.peers import (
    MODEL,
    Autorubric,
    lean_aiohttp,
    open_client,
    openai_sdk,
    raw_aiohttp,
    rubricworks_body,
    rubricworks_client,
)
from benchmarks.questions import ANSWER, CAPTION, Judgment, image_messages, noise_images, text_messages
from benchmarks.reward import rubric
from benchmarks.rounds import Lap, Row, Watch, alternate, lap_of, rush
from rubricworks.data.tables import Sample
from rubricworks.grading import FailedCall, Grader
from rubricworks.llm import ChatClient, Endpoint, image_part
from rubricworks.llm.cache import AnswerCache
from rubricworks.rubrics import Rubric

_CRITERIA = 10
_RUBRICS = 32
_WORKERS = 32


@dataclass(frozen=True)
class Plan:
    """Sizes and options of a measurement."""

    rounds: int
    part: float
    """Of the calls of a whole run."""
    judge_core: int | None
    autorubric: str | None
    """Interpreter of an environment that has it."""

    def calls(self, whole: int) -> int:
        return max(_WORKERS, round(whole * self.part))


async def calls(plan: Plan) -> AsyncIterator[Row]:
    """Text questions, beside aiohttp and the OpenAI SDK."""
    body = await rubricworks_body()
    with canned_judge(says=ANSWER, core=plan.judge_core) as url:
        one_lap = partial(lap_of, numbers=count(), workers=_WORKERS)
        # Files are opened and closed once for a client, not for a call: 30 ms, of a second or more here.
        many = {"calls": plan.calls(10_000), "warm_up": plan.calls(200)}
        few = {"calls": plan.calls(400), "warm_up": 64}
        laps = await alternate(
            {
                "ours": lambda: one_lap(rubricworks_client(url, text_messages), **many),
                "raw": lambda: one_lap(raw_aiohttp(url, body, text_messages), **many),
                "lean": lambda: one_lap(lean_aiohttp(url, body, text_messages), **many),
                "sdk": lambda: one_lap(openai_sdk(url, body, text_messages, over_aiohttp=False), **few),
                "sdk, aiohttp": lambda: one_lap(openai_sdk(url, body, text_messages, over_aiohttp=True), **few),
            },
            plan.rounds,
        )
    yield Row.compare("calls, text ÷ raw aiohttp", laps["ours"], laps["raw"], 0.80)
    yield Row.compare("calls, text ÷ lean aiohttp", laps["ours"], laps["lean"], 0.75)
    yield Row.compare("calls, text ÷ openai.AsyncOpenAI", laps["ours"], laps["sdk"], 10)
    yield Row.compare("calls, text ÷ openai over aiohttp", laps["ours"], laps["sdk, aiohttp"], 5.5)


async def images(plan: Plan) -> AsyncIterator[Row]:
    """Questions with an image; ten images take turns."""
    body = await rubricworks_body()
    for kilobytes, whole, target in ((20, 1500, 1.0), (184, 400, None)):
        files = noise_images(kilobytes)
        parts = [image_part(file) for file in files]

        def from_file(number: int, files: list[bytes] = files) -> list[dict[str, Any]]:
            return image_messages(image_part(files[number % len(files)]), number)

        def prebuilt(number: int, parts: list[dict[str, Any]] = parts) -> list[dict[str, Any]]:
            return image_messages(parts[number % len(parts)], number)

        with canned_judge(says=ANSWER, core=plan.judge_core) as url:
            one_lap = partial(
                lap_of, numbers=count(), calls=plan.calls(whole), workers=_WORKERS, warm_up=plan.calls(200)
            )
            laps = await alternate(
                {
                    "ours": lambda url=url, ask=from_file, lap=one_lap: lap(rubricworks_client(url, ask)),
                    "raw": lambda url=url, ask=prebuilt, lap=one_lap: lap(raw_aiohttp(url, body, ask)),
                },
                plan.rounds,
            )
        yield Row.compare(f"calls, {kilobytes} kB image ÷ raw aiohttp", laps["ours"], laps["raw"], target)


async def graders(plan: Plan) -> AsyncIterator[Row]:
    """Rubrics of ten criteria, beside autorubric on the fastest of its transports (vLLM) and on its first (OpenAI)."""
    rubrics = [rubric(number) for number in range(_RUBRICS)]
    reason = "The caption states a red circle at the top left, as the rule asks."
    verdict = {"criterion_status": "MET", "explanation": reason}
    listed = json.dumps({"judgments": [{"criterion_id": f"c{number}", **verdict} for number in range(_CRITERIA)]})
    settings = {
        "concurrency": _WORKERS,
        "caption": CAPTION,
        "criteria": [
            {
                "weight": criterion.weight,
                "requirement": f"{criterion.criterion}. {criterion.description} {criterion.evaluation_rule}",
            }
            for criterion in rubrics[0].criteria
        ],
    }
    numbers = count()
    async with AsyncExitStack() as open_:
        judge = partial(canned_judge, core=plan.judge_core)
        url = open_.enter_context(judge())
        per_criterion, per_response = plan.calls(2500) // _CRITERIA, plan.calls(1000)
        rivals = {
            "criterion": lambda: _grading_lap(url, rubrics, numbers, "criterion", per_criterion),
            "response": lambda: _grading_lap(url, rubrics, numbers, "response", per_response),
        }
        if plan.autorubric is not None:
            few, more = max(2, round(20 * plan.part)), plan.calls(120)
            for name, provider, llm_calls, says, responses in (
                ("autorubric", "hosted_vllm", "per_criterion", json.dumps(verdict), few),
                ("autorubric, openai/", "openai", "per_criterion", json.dumps(verdict), few),
                ("autorubric, per_item", "hosted_vllm", "per_item", listed, more),
            ):
                at, model = open_.enter_context(judge(says=says)), f"{provider}/{MODEL}"
                start = Autorubric.started(plan.autorubric, url=at, model=model, llm_calls=llm_calls, **settings)
                peer = await open_.enter_async_context(start)
                await peer.lap(max(2, responses // 4), _CRITERIA)
                rivals[name] = partial(peer.lap, responses, _CRITERIA)
        laps = await alternate(rivals, plan.rounds)
    if plan.autorubric is None:
        yield Row.missing("criteria, a call each ÷ autorubric", "autorubric has no environment; use --install-peers")
        yield Row("criteria, a call each", str(laps["criterion"]))
        yield Row("criteria, ten per call", str(laps["response"]))
        return
    each, ten = laps["criterion"], laps["response"]
    yield Row.compare("criteria, a call each ÷ autorubric", each, laps["autorubric"], 25)
    yield Row.compare("criteria, a call each ÷ autorubric over the OpenAI SDK", each, laps["autorubric, openai/"])
    yield Row.compare("criteria, ten per call ÷ autorubric, a call each", ten, laps["autorubric"], 160)
    yield Row.compare("criteria, ten per call ÷ autorubric, ten per call", ten, laps["autorubric, per_item"])


async def _grading_lap(url: str, rubrics: list[Rubric], numbers: Iterator[int], call_per: str, responses: int) -> Lap:
    sample = Sample(sample_id="s", image=b"", prompt="describe the scene")
    with tempfile.TemporaryDirectory() as folder:
        async with open_client(Path(folder), url, _WORKERS) as client:
            failed_calls: list[FailedCall] = []
            grader = Grader(client, call_per=call_per, on_error=failed_calls.append)

            async def grade(responses: int) -> None:
                rows = ((sample, f"{CAPTION}{next(numbers)}", rubrics[n % _RUBRICS]) for n in range(responses))
                async for card in grader.grade_many(rows):
                    if not card.complete:
                        raise RuntimeError(f"the canned judge was not understood: {failed_calls[0].error}")

            await grade(20)
            watch = Watch()
            await grade(responses)
        return watch.lap(responses * _CRITERIA)


async def waiting(plan: Plan) -> AsyncIterator[Row]:
    """A judge that takes its time, once the limiter has found its pace: both rivals stay open between laps."""
    workers, body, numbers = 128, await rubricworks_body(), count()
    with canned_judge(says=ANSWER, delay_s=0.05, core=plan.judge_core) as url:
        async with (
            rubricworks_client(url, text_messages, workers) as our_call,
            raw_aiohttp(url, body, text_messages) as raw_call,
        ):

            async def lap(call) -> Lap:
                watch, calls = Watch(), plan.calls(5000)
                await rush(call, numbers, calls, workers)
                return watch.lap(calls)

            for call in (our_call, raw_call):
                await rush(call, numbers, 4000, workers)
            laps = await alternate({"ours": lambda: lap(our_call), "raw": lambda: lap(raw_call)}, plan.rounds)
    yield Row.compare("calls, 128 in flight, 50 ms each ÷ raw aiohttp", laps["ours"], laps["raw"], 0.95)


async def memory(plan: Plan) -> AsyncIterator[Row]:
    """Memory that a client holds for finished calls."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    first, then = plan.calls(10_000), plan.calls(100_000)
    with canned_judge(says=ANSWER, core=plan.judge_core) as url:
        process = context.Process(target=_use_memory, args=(sender, url, first, then))
        process.start()
        sender.close()
        before, after = receiver.recv()
        process.join()
    detail = f" ({before:.0f} → {after:.0f} MB)"
    yield Row.below(f"memory gained in {then:,} calls", after - before, "MB", 50, detail)


def _use_memory(sender, url: str, first: int, then: int) -> None:
    async def run() -> tuple[float, float]:
        numbers = count()
        async with rubricworks_client(url, text_messages) as call:
            await rush(call, numbers, first, _WORKERS)
            before = _resident_mb()
            for _ in range(10):
                await rush(call, numbers, then // 10, _WORKERS)
            return before, _resident_mb()

    sender.send(asyncio.run(run()))


def _resident_mb() -> float:
    Watch()  # collects garbage
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def hits(plan: Plan) -> AsyncIterator[Row]:
    """Questions that were asked before, one after the other and in another order."""
    answer_count = plan.calls(20_000)
    order = random.Random(0).sample(range(answer_count), answer_count)
    with tempfile.TemporaryDirectory() as folder, canned_judge(says=ANSWER, core=plan.judge_core) as url:
        endpoint, cache = Endpoint(url=url, model=MODEL), Path(folder) / "cache.sqlite"
        async with ChatClient(endpoint, cache=cache) as client:
            await rush(lambda number: client.chat(text_messages(number), Judgment), count(), answer_count, _WORKERS)

        async def lap() -> Lap:
            async with ChatClient(endpoint, cache=cache) as client:
                await client.chat(text_messages(0), Judgment)
                watch = Watch()
                for number in order:
                    reply = await client.chat(text_messages(number), Judgment)
                    if not reply.cached:
                        raise RuntimeError("a question that was asked before was not found in the cache")
                return watch.lap(answer_count)

        with closing(sqlite3.connect(cache)) as file:
            keys = [key for (key,) in file.execute("SELECT key FROM answers")]
        random.Random(0).shuffle(keys)

        async def look() -> Lap:
            cache_reader = AnswerCache(cache)
            watch = Watch()
            for key in keys:
                if cache_reader.get(key) is None:
                    raise RuntimeError("a kept answer was not found in the cache")
            lap = watch.lap(answer_count)
            cache_reader.close()
            return lap

        laps = await alternate({"hit": lap, "look": look}, plan.rounds)
    for name, what in (("look", "a hit, the cache alone"), ("hit", "a hit, with hashing the question and validation")):
        rates = laps[name]
        detail = f" ({1e6 / max(rates.rates):.1f}..{1e6 / min(rates.rates):.1f})"
        yield Row.below(f"{what}, {answer_count:,} answers", 1e6 / rates.rate, "µs", 25, detail)
