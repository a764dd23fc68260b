"""MMMU-Pro, whose questions have several images, run by lmms-eval itself against a served tiny model."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from coloured_squares import SMALL, squares
from scripted_server import ScriptedServer, say

from rubricworks.evaluation.suites.lmms_eval import run_tasks
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.training.model_server import served_model
from rubricworks.training.tiny.student import build_student

pytestmark = pytest.mark.lmms
TASK = "mmmu_pro_reasoning"


def test_every_question_is_answered_whatever_the_number_of_its_images(hub):
    texts = [text for _, prompt, caption in squares() for text in (prompt, caption)]
    images = [picture for picture, _, _ in squares()]
    student = build_student(texts, hub / "student", config=SMALL, images=images, seed=1)
    judge = ScriptedServer(lambda *_: say("0"))

    async def run(url):
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(ChatClient(Endpoint(url=judge.url, model="judge")))
            options = {"url": url, "model": "student", "api_key": "none", "folder": hub / "runs", "max_new_tokens": 6}
            return await run_tasks({TASK: "acc_score"}, **options, judge=client, forms={TASK: "verdict"})

    with served_model(student) as served:
        result = asyncio.run(run(served.url))[TASK]
    judge.close()
    assert result.reason is None
    assert len(result.samples) == 4
    assert set(result.samples.values()) <= {0.0, 1.0}
    assert result.value is not None
