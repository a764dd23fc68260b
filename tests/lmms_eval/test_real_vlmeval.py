"""ms-vlmeval itself against a local endpoint, on small data of its own forms."""

import asyncio
import csv
import io
import subprocess
from base64 import b64decode, b64encode

import pytest
from PIL import Image
from scripted_server import ScriptedServer, fail, say

from rubricworks.evaluation.suites.task_sets import TASK_SETS
from rubricworks.evaluation.suites.vlmeval import VLMEVAL, run_tasks

pytestmark = pytest.mark.lmms
COLOURS = {"red": (255, 0, 0), "green": (0, 128, 0), "blue": (0, 0, 255), "white": (255, 255, 255)}


def colour_of(body: dict) -> tuple[str, str]:
    """Colour of a request's picture, and its text."""
    parts = body["messages"][-1]["content"]
    url = next(part["image_url"]["url"] for part in parts if part["type"] == "image_url")
    pixel = Image.open(io.BytesIO(b64decode(url.partition(",")[2]))).convert("RGB").getpixel((0, 0))
    name = min(COLOURS, key=lambda name: sum(abs(a - b) for a, b in zip(COLOURS[name], pixel, strict=True)))
    return name, " ".join(part["text"] for part in parts if part["type"] == "text")


def image(colour: str) -> str:
    content = io.BytesIO()
    Image.new("RGB", (40, 40), COLOURS[colour]).save(content, "PNG")
    return b64encode(content.getvalue()).decode()


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A task with short answers, and A-OKVQA's, each with one question of each colour."""
    folder = tmp_path / "LMUData"
    folder.mkdir()
    monkeypatch.setenv("LMUData", str(folder))
    questions = [{"index": n, "image": image(name), "question": "Which colour?"} for n, name in enumerate(COLOURS)]
    answers = [row | {"answer": str([name])} for row, name in zip(questions, COLOURS, strict=True)]
    options = dict(zip("ABCD", COLOURS, strict=True))
    choices = [row | options | {"answer": "ABCD"[row["index"]], "split": "val"} for row in questions]
    for task, rows in (("OCRVQA_LOCAL", answers), ("A-OKVQA", choices)):
        with (folder / f"{task}.tsv").open("w") as file:
            writer = csv.DictWriter(file, rows[0], delimiter="\t")
            writer.writeheader()
            writer.writerows(rows)


def test_its_results_are_those_of_the_answers(data, tmp_path):
    def reply(_, body):
        colour, text = colour_of(body)
        if colour == "white":
            return fail(400, "no")
        if "Options:" in text:
            return say({"red": "A", "green": "B", "blue": "D"}[colour])
        return say({"red": "Red", "green": "pink", "blue": "blue"}[colour])

    server = ScriptedServer(reply)
    tasks = {"OCRVQA_LOCAL": "eval_score", "A-OKVQA": "hit"}
    options = {"url": f"{server.url.removesuffix('/v1')}/v1", "model": "org/mine", "api_key": "its-key"}
    results = asyncio.run(run_tasks(tasks, **options, folder=tmp_path / "runs"))
    assert results["OCRVQA_LOCAL"].samples == {"0": 1.0, "1": 0.0, "2": 1.0, "3": None}
    assert results["A-OKVQA"].samples == {"0": 1.0, "1": 1.0, "2": 0.0, "3": None}
    assert results["A-OKVQA"].value == pytest.approx(2 / 3)
    calls = len(server.chats)
    assert asyncio.run(run_tasks(tasks, **options, folder=tmp_path / "runs")) == results
    assert len(server.chats) == calls  # verified results are not measured again
    server.close()
    written = [path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert written
    assert not any(b"its-key" in content for content in written)


def test_every_task_of_the_sets_is_there():
    program = "from vlmeval.dataset import SUPPORTED_DATASETS; print('\\n'.join(SUPPORTED_DATASETS))"
    listed = subprocess.run([VLMEVAL.python(), "-c", program], capture_output=True, text=True, check=True).stdout
    tasks = {
        benchmark.task for benchmarks in TASK_SETS.values() for benchmark in benchmarks if benchmark.harness is VLMEVAL
    }
    assert tasks
    assert tasks <= set(listed.splitlines())
