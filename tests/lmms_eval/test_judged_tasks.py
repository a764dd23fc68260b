"""Tasks of the papers' sets that ask a judge, run by lmms-eval itself on rows of their own form: the recipe's judge
answers, and one that fails gives no number."""

import asyncio
import io
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image
from scripted_server import ScriptedServer, fail, say

from rubricworks.evaluation.suites.lmms_eval import run_tasks
from rubricworks.evaluation.suites.task_sets import TASK_SETS
from rubricworks.llm import ChatClient, Endpoint

pytestmark = pytest.mark.lmms
BENCHMARKS = {benchmark.task: benchmark for name in ("pretrain-9", "rlr3-15") for benchmark in TASK_SETS[name]}


def image(colour: str) -> dict:
    content = io.BytesIO()
    Image.new("RGB", (28, 28), colour).save(content, "PNG")
    return {"bytes": content.getvalue(), "path": f"{colour}.png"}


def mmvet(number: int) -> dict:
    return {"question_id": f"v{number}", "image": image("red"), "question": f"What is {number} + 1?",
            "answer": str(number + 1), "capability": "math", "image_source": "x"}  # fmt: skip


def mathvista(number: int) -> dict:
    question = f"What is {number} + 1?"
    metadata = {"split": "testmini", "language": "english", "source": "x", "category": "c", "task": "t",
                "context": "k", "grade": "g", "skills": ["s"]}  # fmt: skip
    return {"pid": str(number), "question": question, "decoded_image": image("red"), "choices": None, "unit": None,
            "precision": None, "answer": str(number + 1), "question_type": "free_form", "answer_type": "integer",
            "metadata": metadata, "query": question}  # fmt: skip


def mmbench(number: int) -> dict:
    return {"index": number, "question": f"What is {number} + 1?", "hint": "nan", "answer": "B", "A": "none",
            "B": "the next one", "C": "two more", "D": "all", "category": "c", "L2-category": "l", "source": "s",
            "split": "dev", "image": image("red")}  # fmt: skip


def realworldqa(number: int) -> dict:
    return {"image": image("red"), "question": f"What is {number} + 1?", "answer": str(number + 1),
            "image_path": "x.png"}  # fmt: skip


FORMS = {
    "mmvet": (mmvet, "lmms-lab-encoder/MMVet", "test"),
    "mathvista_testmini_cot": (mathvista, "AI4Math/MathVista", "testmini"),
    "mmbench_en_dev": (mmbench, "lmms-lab-encoder/MMBench", "dev"),
    "realworldqa_reasoning": (realworldqa, "lmms-lab-encoder/RealWorldQA", "test"),
}
COUNT = 3


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    """The data sets of these tasks, found in the working folder by their names on the Hub."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    for row, name, split in FORMS.values():
        folder = tmp_path / "hub" / name
        folder.mkdir(parents=True)
        table = pa.Table.from_pylist([row(number) for number in range(COUNT)])
        images = {name: {"_type": "Image"} for name in ("image", "decoded_image") if name in table.column_names}
        features = json.dumps({"info": {"features": images}})
        configs = [{"config_name": "en", "data_files": [{"split": split, "path": f"{split}-0.parquet"}]}]
        (folder / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': configs})}---\n")
        pq.write_table(table.replace_schema_metadata({"huggingface": features}), folder / f"{split}-0.parquet")
    monkeypatch.chdir(tmp_path / "hub")
    return tmp_path / "runs"


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


@pytest.mark.parametrize("task", FORMS)
def test_its_judge_is_the_recipes(task, data):
    result, asked = measure(task, data, lambda text: say(right(task, text)))
    expected = 2 / 3 if task == "mmvet" else 1 / 3
    assert result.value == pytest.approx(expected, abs=1e-3)
    assert result.reason is None
    assert sum("What is" in text for text in asked) >= COUNT


@pytest.mark.parametrize("task", FORMS)
def test_a_judge_that_fails_gives_no_number(task, data):
    result, _ = measure(task, data, lambda _: fail(400, "content filter"))
    assert result.value is None
    assert result.samples == {}
    assert "its judge failed (transport)" in result.reason
    result, _ = measure(task, data, lambda text: say(right(task, text)))
    assert result.value is not None  # and nothing of the failed attempt is taken for a result
