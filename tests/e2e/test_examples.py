"""The examples, run as a user runs them: on files, in a process of their own, against a server."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from datasets import Dataset, Image
from safetensors.torch import load_file
from scripted_server import say

from rubricworks.data.tables import read_samples
from rubricworks.training.tiny.student import build_student
from rubricworks.training.tiny.text_student import build_text_student
from rubricworks.world.scene.export import export_scenes

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPT, ONE_SCREEN = EXAMPLES / "trl_script.py", EXAMPLES / "one_screen.py"
COMMAND = [sys.executable, "-m", "rubricworks.cli"]
PROMPT = "describe the image"
_FIGURES = re.compile(r"^(\w[\w ]*?) +([\d.]+) -> +([\d.]+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    return export_scenes(tmp_path_factory.mktemp("world"), seed=3, count=12)


@pytest.fixture(scope="module")
def world(images) -> Iterator[str]:
    command = [*COMMAND, "world", "serve", str(images.parent), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        yield server.stdout.readline().strip()
        server.terminate()


@pytest.fixture(scope="module")
def dataset(images, world, tmp_path_factory) -> Path:
    """Images, prompts and the rubrics that `rubricworks synthesize` wrote for them, as one dataset on disk."""
    out = tmp_path_factory.mktemp("rubrics")
    committee = [argument for n in range(1, 6) for argument in ("--committee", f"teacher-{n}@{world}")]
    subprocess.run(
        [*COMMAND, "synthesize", str(images), *committee, "--writer", f"rubric-writer@{world}", "--out", str(out)],
        check=True,
    )
    rubrics = {row["sample_id"]: row["rubric"] for row in pq.read_table(out / "rubrics.parquet").to_pylist()}
    assert len(rubrics) == 12
    rows = [
        {
            "sample_id": sample.sample_id,
            "image": {"bytes": sample.image, "path": None},
            "prompt": [{"role": "user", "content": PROMPT}],
            "rubric": rubrics[sample.sample_id],
        }
        for sample in read_samples(out / "prepare")
    ]
    folder = tmp_path_factory.mktemp("dataset")
    Dataset.from_list(rows).cast_column("image", Image()).save_to_disk(folder)
    return folder


@pytest.fixture(scope="module")
def student(images, tmp_path_factory) -> Path:
    captions = [json.loads(line)["text"] for line in (images / "metadata.jsonl").read_text().splitlines()]
    pictures = [file.read_bytes() for file in sorted(images.glob("*.png"))]
    return build_student([PROMPT, *captions], tmp_path_factory.mktemp("student"), images=pictures)


def test_a_script_of_ones_own_trains_on_rubric_rewards(dataset, student, world, tmp_path):
    out = tmp_path / "out"
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), str(student), str(dataset), str(out), "2"],
        env={**os.environ, "JUDGE_URL": world, "JUDGE_MODEL": "judge", "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    logged = json.loads(next(out.glob("checkpoint-2/trainer_state.json")).read_text())["log_history"]
    steps = [entry for entry in logged if "rewards/rubric_reward/mean" in entry]
    assert len(steps) == 2
    # An untaught student meets a criterion now and then: the judge was asked, and it told responses apart.
    assert all(0 <= entry["rewards/rubric_reward/mean"] < 1 for entry in steps)
    assert all(entry["rubric_reward/unjudged"] == 0 for entry in steps)
    assert any(entry["reward_std"] > 0 for entry in steps)
    before, after = load_file(student / "model.safetensors"), load_file(out / "model.safetensors")
    assert any((before[name] != after[name]).any() for name in before)


def vowel_judge(_, body):
    """Meets the first criterion where the response has an even number of letters, so that a group differs."""
    text = body["messages"][1]["content"]
    criteria = json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0])
    met = len(text) % 2
    return say(json.dumps({"verdicts": [{"id": c["id"], "reasoning": "", "score": met} for c in criteria]}))


def test_a_rubric_set_trains_in_one_line(serve, tmp_path):
    rubrics = Path(__file__).parents[1] / "data" / "rubric_files" / "healthbench.jsonl"
    prompts = [turn["content"] for line in rubrics.read_text().splitlines() for turn in json.loads(line)["prompt"]]
    model = build_text_student(prompts, tmp_path / "model")
    judge = serve(vowel_judge)
    variables = {**os.environ, "JUDGE_URL": judge.url, "JUDGE_MODEL": "judge", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, EXAMPLES / "trl_spec.py", model, rubrics, tmp_path / "out", "2"]
    ran = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    logged = json.loads((tmp_path / "out" / "checkpoint-2" / "trainer_state.json").read_text())["log_history"]
    assert [entry["rubric_reward/unjudged"] for entry in logged if "rubric_reward/unjudged" in entry] == [0, 0]
    assert any("lies on the floor" in json.dumps(chat.body) for chat in judge.chats)


def test_the_example_is_as_short_as_the_documentation_says():
    code = SCRIPT.read_text().split('"""')[2]
    assert len([line for line in code.splitlines() if line.strip() and not line.startswith(("import", "from"))]) <= 22


@pytest.mark.long
def test_whole_loop_on_one_screen_makes_a_better_captioner(tmp_path):
    ran = subprocess.run(
        [sys.executable, str(ONE_SCREEN), "--seed", "1"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("simulated images, teachers and judge; a real student")
    figures = {name: (float(before), float(after)) for name, before, after in _FIGURES.findall(ran.stdout)}
    assert figures.keys() == {"rubric reward", "oracle F1", "words"}
    for name in ("rubric reward", "oracle F1"):
        before, after = figures[name]
        assert 0 < before < after < 1, ran.stdout
    assert not any(tmp_path.iterdir())


def test_one_screen_is_one_screen():
    assert len(ONE_SCREEN.read_text().splitlines()) <= 120
