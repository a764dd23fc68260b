"""Captions, rubrics and verdicts end to end over HTTP, with the scene world's scripted models and known truth."""

import asyncio
import json
import statistics
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiohttp import web

from rubricworks.data.tables import Sample
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, Endpoint, check_endpoint, image_part, text_part
from rubricworks.rewards import weighted_reward
from rubricworks.synthesis import CAPTION_PROMPT, Candidate, RubricWriter
from rubricworks.world.scene.captions import write_caption
from rubricworks.world.scene.export import export_scenes
from rubricworks.world.scene.scene_index import read_scene_index
from rubricworks.world.server import make_app

SCENES = 24


@asynccontextmanager
async def world(folder):
    runner = web.AppRunner(make_app(read_scene_index(folder)))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


async def rewards_by_caption(folder, coverage, guards):
    """Mean reward of the true caption, the noisy one that the rubric was written for, an empty and a padded one."""
    book = read_scene_index(folder)
    noisy = [json.loads(line) for line in (folder / "images" / "metadata.jsonl").read_text().splitlines()]
    rewards, rubrics, dropped = {}, [], []
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(world(folder))
        await check_endpoint(Endpoint(url=url, model="judge"))

        async def client(model):
            return await stack.enter_async_context(ChatClient(Endpoint(url=url, model=model, max_tokens=8192)))

        teachers = [await client(f"teacher-{n}") for n in range(1, 6)]
        writer = RubricWriter(await client("rubric-writer"), coverage=coverage, guards=guards)
        grader = Grader(await client("judge"))
        for row in noisy:
            image = (folder / "images" / row["file_name"]).read_bytes()
            sample = Sample(sample_id=row["file_name"], image=image, prompt=CAPTION_PROMPT)
            request = [{"role": "user", "content": [image_part(image), text_part(sample.prompt)]}]
            captions = await asyncio.gather(*(teacher.chat(request) for teacher in teachers))
            committee = [
                Candidate(captioner=teacher.endpoint.model, caption=reply.value)
                for teacher, reply in zip(teachers, captions, strict=True)
            ]
            result = await writer.write(sample, committee, [row["text"]])
            dropped += result.dropped
            if result.rubric is None:
                continue
            rubrics.append(result.rubric)
            _, scene = book.find(image)
            responses = {"true": write_caption(scene, "canonical"), "student": row["text"], "empty": ""}
            rows = [(sample, response, result.rubric) for response in responses.values()]
            cards = [card async for card in grader.grade_many(rows)]
            for name, card in zip(responses, cards, strict=True):
                rewards.setdefault(name, []).append(weighted_reward(card.credits, result.rubric.weights))
    means = {name: statistics.fmean(values) for name, values in rewards.items()}
    return means, rubrics, dropped


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    export_scenes(folder, seed=7, count=SCENES)
    return folder


def test_discriminative_rubrics_ask_for_what_the_student_missed(folder):
    means, rubrics, dropped = asyncio.run(rewards_by_caption(folder, "discriminative", guards=False))
    assert means["true"] > 0.85
    assert means["student"] < 0.1
    assert len(rubrics) > SCENES / 2
    assert not [reason for _, reason in dropped if "consensus" not in reason]
    for rubric in rubrics:
        for criterion in rubric.criteria:
            assert len(criterion.reference_teachers) >= 3
            assert not criterion.student_already_met


def test_full_rubrics_with_guards_give_the_student_credit_for_what_it_has(folder):
    means, rubrics, _ = asyncio.run(rewards_by_caption(folder, "full", guards=True))
    assert means["true"] > 0.85
    assert 0.3 < means["student"] < 0.9
    assert means["empty"] < 0.1
    assert len(rubrics) == SCENES
    assert all(any(not criterion.reference_teachers for criterion in rubric.criteria) for rubric in rubrics)
