"""Cost of grading a generated image beside raw aiohttp, in one run: `python -m benchmarks.image_grading [--quick]`.

An image of 20 kB is graded by ten criteria, in one call or in ten. Ours does its whole work: it decodes the image to
learn that it can be, encodes it once, and has a cache file, a limiter and validated answers. Raw aiohttp encodes each
image once as well and posts the same messages. Rounds alternate, against a canned judge in another process; rates are
images a second, and the CPU time is that of the asking process for one image.
"""

import argparse
import asyncio
import base64
import random
import tempfile
from collections.abc import AsyncIterator, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.canned_judge import canned_judge
from benchmarks.grading import take_cores
from benchmarks.peers import MODEL, rubricworks_body
from benchmarks.reward import rubric
from benchmarks.rounds import Lap, Row, Watch, alternate
from rubricworks.data.images import png_bytes
from rubricworks.data.tables import Sample
from rubricworks.grading import CallPer, Grader
from rubricworks.grading.images.prompts import image_judge_messages
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.rubrics import Response

_SIDE = 82
"""Of noise: 20 kB as PNG."""
_IN_FLIGHT = 32
_PROMPT = "a red circle left of a blue square, on a plain background"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="a tenth of the images")
    options.add_argument("--rounds", type=int, default=7)
    arguments = options.parse_args()
    core = take_cores()
    print(Row.HEAD, flush=True)
    asyncio.run(_print_rows(arguments.rounds, 0.1 if arguments.quick else 1.0, core))


async def _print_rows(rounds: int, part: float, core: int | None) -> None:
    async for row in image_grading(rounds, part, core):
        print(row, flush=True)


async def image_grading(rounds: int, part: float, core: int | None) -> AsyncIterator[Row]:
    """One row for one call an image, one for ten."""
    numbers, body = count(), await rubricworks_body()
    criteria = rubric(0).criteria
    kinds: tuple[tuple[CallPer, str, int], ...] = (
        ("response", "images, ten criteria in one call", 600),
        ("criterion", "images, ten criteria in ten calls", 120),
    )
    for call_per, name, whole in kinds:
        images = max(_IN_FLIGHT, round(whole * part))
        with canned_judge(core=core) as url:
            laps = await alternate(
                {
                    "ours": partial(_our_lap, url, call_per, images, numbers),
                    "raw": partial(_raw_lap, url, call_per, images, numbers, body, criteria),
                },
                rounds,
            )
        yield Row.compare(f"{name} ÷ raw aiohttp", laps["ours"], laps["raw"])


async def _our_lap(url: str, call_per: CallPer, images: int, numbers: Iterator[int]) -> Lap:
    sample, graded = Sample(sample_id="s", image=None, prompt=_PROMPT), rubric(0)
    with tempfile.TemporaryDirectory() as folder:
        endpoint = Endpoint(url=url, model=MODEL, concurrency=_IN_FLIGHT)
        async with ChatClient(endpoint, cache=Path(folder) / "cache.sqlite") as client:
            grader = Grader(client, call_per=call_per)

            async def grade(files: list[bytes]) -> None:
                async for card in grader.grade_many((sample, Response.of_image(file), graded) for file in files):
                    if not card.complete:
                        raise RuntimeError(f"the canned judge was not understood: {card.verdicts[0].reasoning}")

            await grade(_files(8, numbers))
            files = _files(images, numbers)
            watch = Watch()
            await grade(files)
        return watch.lap(images)


async def _raw_lap(
    url: str, call_per: CallPer, images: int, numbers: Iterator[int], body: dict[str, Any], criteria: Any
) -> Lap:
    batches = [criteria] if call_per == "response" else [(criterion,) for criterion in criteria]
    address = f"{url}/chat/completions"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=_IN_FLIGHT)) as session:

        async def post(part: dict[str, Any], batch: Any) -> None:
            messages = image_judge_messages(part, batch, prompt=_PROMPT)
            async with session.post(address, json={**body, "messages": messages}) as answer:
                await answer.json()

        async def grade(files: Iterator[bytes]) -> None:
            for file in files:
                data = base64.b64encode(file).decode()
                part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
                await asyncio.gather(*(post(part, batch) for batch in batches))

        async def all_of(files: list[bytes]) -> None:
            left = iter(files)
            await asyncio.gather(*(grade(left) for _ in range(_IN_FLIGHT // len(batches) + 1)))

        await all_of(_files(8, numbers))
        files = _files(images, numbers)
        watch = Watch()
        await all_of(files)
    return watch.lap(images)


def _files(images: int, numbers: Iterator[int]) -> list[bytes]:
    """New images, so that no cache holds one."""
    import numpy as np

    files = []
    for _ in range(images):
        noise = random.Random(next(numbers)).randbytes(3 * _SIDE * _SIDE)
        files.append(png_bytes(np.frombuffer(noise, dtype=np.uint8).reshape(_SIDE, _SIDE, 3)))
    return files


if __name__ == "__main__":
    main()
