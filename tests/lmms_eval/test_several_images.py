"""MMMU-Pro, whose questions have several images, run by lmms-eval itself against a served tiny model."""

import asyncio
import io
import json
from contextlib import AsyncExitStack

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from coloured_squares import SMALL, squares
from PIL import Image
from scripted_server import ScriptedServer, say

from rubricworks.evaluation.suites.lmms_eval import run_tasks
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.training.model_server import served_model
from rubricworks.training.tiny.student import build_student

pytestmark = pytest.mark.lmms
TASK = "mmmu_pro_reasoning"


def image(colour: str) -> dict:
    content = io.BytesIO()
    Image.new("RGB", (32, 32), colour).save(content, "PNG")
    return {"bytes": content.getvalue(), "path": f"{colour}.png"}


def write(folder, rows, images):
    folder.mkdir(parents=True)
    features = json.dumps({"info": {"features": {name: {"_type": "Image"} for name in images}}})
    table = pa.Table.from_pylist(rows).replace_schema_metadata({"huggingface": features})
    pq.write_table(table, folder / "test-0.parquet")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """MMMU-Pro's two configurations: a question with two images, one with one, and one that is in its image."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    common = {"subject": "Art", "answer": "A", "options": "['at top-left', 'a red square']"}
    none = {f"image_{at}": None for at in range(1, 8)}
    two = {**none, "image_1": image("red"), "image_2": image("blue"), "question": "describe <image 1> the <image 2> ."}
    single = {**none, "image_1": image("green"), "image_2": image("red"), "question": "describe the <image 1> ."}
    rows = [{"id": f"q{at}", **common, **row} for at, row in enumerate((two, single))]
    place = tmp_path / "hub" / "MMMU" / "MMMU_Pro"
    write(place / "standard", rows, list(none))
    write(place / "vision", [{"id": "v", **common, "image": image("blue")}], ["image"])
    paths = {"standard (10 options)": "standard", "vision": "vision"}
    configs = [
        f'  - config_name: "{name}"\n    data_files:\n      - split: test\n        path: "{path}/*.parquet"\n'
        for name, path in paths.items()
    ]
    (place / "README.md").write_text("---\nconfigs:\n" + "".join(configs) + "---\n")
    monkeypatch.chdir(tmp_path / "hub")
    return tmp_path


def test_every_question_is_answered_whatever_the_number_of_its_images(data):
    texts = [text for _, prompt, caption in squares() for text in (prompt, caption)]
    images = [picture for picture, _, _ in squares()]
    student = build_student(texts, data / "student", config=SMALL, images=images, seed=1)
    judge = ScriptedServer(lambda *_: say("0"))

    async def run(url):
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(ChatClient(Endpoint(url=judge.url, model="judge")))
            options = {"url": url, "model": "student", "api_key": "none", "folder": data / "runs", "max_new_tokens": 6}
            return await run_tasks({TASK: "acc_score"}, **options, judge=client, forms={TASK: "verdict"})

    with served_model(student) as served:
        result = asyncio.run(run(served.url))[TASK]
    judge.close()
    assert result.reason is None
    assert len(result.samples) == 3
    assert set(result.samples.values()) <= {0.0, 1.0}
    assert result.value is not None
