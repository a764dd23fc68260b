"""Each task of the papers' sets, run by lmms-eval itself on rows of its own form: the figure is that of the answers."""

import asyncio
import json
import re
from contextlib import AsyncExitStack

import pytest
from scripted_server import ScriptedServer, say

from rubricworks.evaluation.suites.lmms_eval import LMMS_EVAL, run_tasks
from rubricworks.evaluation.suites.task_sets import TASK_SETS
from rubricworks.llm import ChatClient, Endpoint

pytestmark = pytest.mark.lmms
BENCHMARKS = {
    benchmark.task: benchmark
    for benchmarks in TASK_SETS.values()
    for benchmark in benchmarks
    if benchmark.harness is LMMS_EVAL and not benchmark.task.startswith("scene_")
}
LETTERS = {"blink", "ai2d", "seedbench", "scienceqa_img", "mmmu_val", "mmstar", "mmbench_en_dev", "mmstar_reasoning",
           "wemath_testmini_reasoning", "mathvision_reason_test_reasoning", "mmmu_pro_reasoning"}  # fmt: skip
"""Tasks whose right answer is the letter B."""
NUMBERS = {"chartqa": "102", "chartqa_reasoning": "100"}
"""Right answers to the first question that are no 1. In its reasoning form, a judge decides on ChartQA's 5 %."""
EXPECTED = {
    "wemath_testmini_reasoning": 3 / 7,  # the two-step problem is right, the three-step one is wrong
    "mmmu_pro_reasoning": 1 / 4,  # with a question that is in its image
    "charxiv_val_descriptive_cot": 1 / 4,
    "charxiv_val_reasoning_cot": 1 / 4,
    "mmvet": 2 / 3,
}


def answer(task: str, asked: str) -> str:
    """A right answer to the first question, and to the first problem of We-Math; wrong ones to the others."""
    number = re.search(r"What is (\d) \+ 1\?", asked)
    right = number and int(number[1]) in (range(3) if task.startswith("wemath") else (0,))
    if task == "charxiv_val_descriptive_cot":
        right = "total number of explicitly labeled ticks" in asked
        said = "7" if right else "no idea"
    elif task in LETTERS:
        said = "B" if right else "C"
    else:
        said = NUMBERS.get(task, "1") if right else "17"
    if "reasoning" in task or task.startswith("charxiv"):
        return f"<think>One more.</think><answer>{said}</answer>"
    return said


def judged(task: str, asked: str) -> str:
    """What the judge says in the task's form: of the right answer that it is right."""
    if BENCHMARKS[task].judge == "verdict":
        return "0"  # rules have found every right answer
    if task == "mmvet":
        return "1.0" if "What is 0 + 1?" in asked else "0.5"
    if task == "mmbench_en_dev":
        return "B" if "What is 0 + 1?" in asked else "C"
    return "1" if "What is 0 + 1?" in asked else "17"


@pytest.mark.parametrize("task", BENCHMARKS)
def test_its_figure_is_the_share_of_right_answers(task, hub):
    benchmark = BENCHMARKS[task]
    model = ScriptedServer(lambda _, body: say(answer(task, json.dumps(body["messages"]))))
    judge = ScriptedServer(lambda _, body: say(judged(task, json.dumps(body["messages"]))))

    async def run():
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(ChatClient(Endpoint(url=judge.url, model="judge")))
            options = {"url": model.url, "model": "mine", "api_key": "none", "folder": hub / "runs"}
            if benchmark.percent:
                options["percent"] = {task}
            if benchmark.judge:
                options |= {"judge": client, "forms": {task: benchmark.judge}}
            return (await run_tasks({task: benchmark.metric}, **options))[task]

    try:
        result = asyncio.run(run())
    finally:
        model.close()
        judge.close()
    assert result.reason is None
    assert result.value == pytest.approx(EXPECTED.get(task, 1 / 3), abs=1e-3)
