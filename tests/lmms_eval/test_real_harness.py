"""lmms-eval itself against a local endpoint: the scene world's benchmarks, and the tasks that the papers' sets name."""

import asyncio
import json
import subprocess
from base64 import b64decode

import pyarrow.parquet as pq
import pytest
from scripted_server import ScriptedServer, say

from rubricworks.errors import UserError
from rubricworks.evaluation.suites.lmms_eval import LMMS_EVAL, run_tasks
from rubricworks.evaluation.suites.task_sets import TASK_SETS
from rubricworks.world.scene.benchmarks_export import export_benchmarks

pytestmark = pytest.mark.lmms
COUNT = 6
NAMES = r"""
import importlib.util, json, pathlib, re
root = pathlib.Path(importlib.util.find_spec("lmms_eval").origin).parent / "tasks"
found = {}
for path in root.rglob("*"):
    if path.is_file() and (path.suffix == ".yaml" or path.name.endswith("_yaml")):
        text = path.read_text(errors="replace")
        for name in re.findall(r"^(?:task|group): *[\"']?([\w-]+)", text, re.M):
            found[name] = path.parent.name
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def benchmarks(tmp_path_factory):
    return export_benchmarks(tmp_path_factory.mktemp("world"), seed=1, count=COUNT)


def test_its_results_are_those_of_the_answers(benchmarks, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    rows = pq.read_table(benchmarks / "scene_count.parquet").to_pylist()
    right = {row["image"]: row["answer"] for row in rows}

    def reply(_, body):
        image = next(part for part in body["messages"][-1]["content"] if part["type"] == "image_url")
        # The harness encodes the picture anew.
        answer = pixels(b64decode(image["image_url"]["url"].partition(",")[2]))
        return say(f"so it is \\boxed{{{answers[answer]}}}" if answers[answer] != "2" else "many")

    answers = {pixels(image): answer for image, answer in right.items()}
    server = ScriptedServer(reply)
    options = {"url": f"{server.url}/v1" if not server.url.endswith("/v1") else server.url, "model": "mine"}
    options |= {"api_key": "none", "folder": tmp_path, "include": benchmarks}
    results = asyncio.run(run_tasks({"scene_count": "right"}, **options))
    expected = {str(number): float(row["answer"] != "2") for number, row in enumerate(rows)}
    assert results["scene_count"].samples == expected
    assert results["scene_count"].value == pytest.approx(sum(expected.values()) / COUNT)
    calls = len(server.chats)
    assert asyncio.run(run_tasks({"scene_count": "right"}, **options)) == results
    assert len(server.chats) == calls  # verified results are not measured again
    server.close()


def test_a_run_that_fails_is_refused(benchmarks, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    options = {"url": "http://127.0.0.1:9/v1", "model": "mine", "api_key": "none", "folder": tmp_path}
    with pytest.raises(UserError, match="lmms-eval wrote no results of no_such_task"):
        asyncio.run(run_tasks({"no_such_task": "right"}, **options, include=benchmarks))


def test_every_task_of_the_sets_is_there():
    known = json.loads(subprocess.run([LMMS_EVAL.python(), "-c", NAMES], capture_output=True, check=True).stdout)
    sets = [benchmarks for name, benchmarks in TASK_SETS.items() if name != "scene-5"]
    tasks = {benchmark.task for benchmarks in sets for benchmark in benchmarks if benchmark.harness is LMMS_EVAL}
    assert tasks <= known.keys(), tasks - known.keys()


def pixels(image: bytes) -> bytes:
    from io import BytesIO

    from PIL import Image

    return Image.open(BytesIO(image)).convert("RGB").tobytes()
