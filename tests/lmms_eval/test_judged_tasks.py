"""Tasks of the papers' sets that ask a judge, run by lmms-eval itself on rows of their own form: the recipe's judge
answers, and one that fails gives no number.
"""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from scripted_server import ScriptedServer, fail, say

from rubricworks.evaluation.suites.lmms_eval import run_tasks
from rubricworks.evaluation.suites.task_sets import TASK_SETS
from rubricworks.llm import ChatClient, Endpoint

pytestmark = pytest.mark.lmms
BENCHMARKS = {benchmark.task: benchmark for name in ("pretrain-9", "rlr3-15") for benchmark in TASK_SETS[name]}
TASKS = ("mmvet", "mathvista_testmini_cot", "mmbench_en_dev", "realworldqa_reasoning")
COUNT = 3


def measure(task: str, folder: Path, said):
    """Results of a task, and what its judge was asked."""
    policy = ScriptedServer(lambda *_: say("I believe that it is the one that follows"))
    judge = ScriptedServer(lambda _, body: said(body["messages"][-1]["content"]))
    benchmark = BENCHMARKS[task]

    async def run():
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(ChatClient(Endpoint(url=judge.url, model="gpt-5-judge")))
            options = {"url": f"{policy.url.removesuffix('/v1')}/v1", "model": "mine", "api_key": "none"}
            results = await run_tasks(
                {task: benchmark.metric},
                **options,
                folder=folder,
                percent={task} if benchmark.percent else (),
                judge=client,
                forms={task: benchmark.judge},
            )
            return results[task]

    try:
        return asyncio.run(run()), [str(chat.body["messages"][-1]["content"]) for chat in judge.chats]
    finally:
        policy.close()
        judge.close()


def right(task: str, asked: object) -> str:
    """The right answer in the task's form for the first question, a wrong one for the others."""
    first = "What is 0 + 1?" in json.dumps(asked)
    return {
        "mmvet": "1.0" if first else "0.5",
        "mathvista_testmini_cot": "1" if first else "17",
        "mmbench_en_dev": "B" if first else "C",
        "realworldqa_reasoning": "1" if first else "0",
    }[task]


@pytest.mark.parametrize("task", TASKS)
def test_its_judge_is_the_recipes(task, hub):
    result, asked = measure(task, hub / "runs", lambda text: say(right(task, text)))
    expected = 2 / 3 if task == "mmvet" else 1 / 3
    assert result.value == pytest.approx(expected, abs=1e-3)
    assert result.reason is None
    assert sum("What is" in text for text in asked) >= COUNT


@pytest.mark.parametrize("task", TASKS)
def test_a_judge_that_fails_gives_no_number(task, hub):
    result, _ = measure(task, hub / "runs", lambda _: fail(400, "content filter"))
    assert result.value is None
    assert result.samples == {}
    assert "its judge failed (transport)" in result.reason
    result, _ = measure(task, hub / "runs", lambda text: say(right(task, text)))
    assert result.value is not None  # and nothing of the failed attempt is taken for a result
