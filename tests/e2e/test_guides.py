"""The commands of README.md and the guides as written, page by page, in a copy of the first run's folder.

Endpoints of the pages are one server that answers every request by its schema, as in a rehearsal. `runs/ID` and other
names of runs are the first run. `commands_elsewhere` lists what is run elsewhere, and why.
"""

import csv
import json
import re
import shlex
import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from commands_elsewhere import place_of
from own_recipe import Outcome, rubricworks, write_recipe
from page_commands import GUIDES, ROOT, page_steps, stable
from scripted_server import ScriptedServer
from stub_models import OneModel

from rubricworks.data.tables import read_rows
from rubricworks.recipe.files import recipe_path
from rubricworks.rehearsal.scripted_server import ScriptedServer as AnyModels

pytestmark = pytest.mark.slow

FILES = ROOT / "tests" / "data" / "rubric_files"
ENDPOINT = re.compile(r"https?://(localhost:8000|gpu\d:8000|api\.openai\.com)/v1")
CLUSTER = {
    "storage": "s3://runs/captions",
    "images": {"cpu": "registry.example/cpu:1", "trainer": "registry.example/trainer:1"},
    "pools": {"cpu": {}, "h100": {"accelerator": "nvidia.com/gpu"}},
    "stages": {"default": {"pool": "cpu"}, "train_policy": {"pool": "h100", "accelerators": 1}},
}
RATERS = {"ana": 5, "ben": 10, "eva": 25}
"""Simulated person → percent of labels that are wrong."""
EXIT_CODES = {"rubricworks doctor my-recipe.yaml": 2, "rubricworks rubrics diff": 1, "--refuse 0.2": 1}
"""What pages say of a command's exit code, by a part of the command: the recipe for a GPU lacks one here."""


@pytest.fixture(scope="module")
def models() -> Iterator[AnyModels]:
    with AnyModels(failures=0.0) as models:
        yield models


@pytest.fixture(scope="module")
def one_model() -> Iterator[ScriptedServer]:
    server = ScriptedServer(OneModel())
    yield server
    server.close()


@pytest.mark.parametrize("page", GUIDES)
def test_commands_of_a_guide_run_in_its_order(page, first_run, tmp_path, models, one_model):
    folder = tmp_path / "guide"
    shutil.copytree(first_run.folder, folder)
    write_files(folder, page, one_model.url)
    steps = [step for step in page_steps(ROOT / page) if place_of(step.command) is None]
    assert steps
    for command, shown in steps:
        done = run_command(command, folder, one_model.url if " init " in command else models.address("chat"))
        expected = next((code for part, code in EXIT_CODES.items() if part in command), 0)
        assert done.code == expected, f"{page}: {command}\n{done.out}\n{done.err}"
        assert "Traceback" not in done.err
        assert shown is None or stable(done.out, folder) == stable(shown, folder)


def run_command(command: str, folder: Path, endpoint: str) -> Outcome:
    """Run a command of a page; `export` and programs other than ours are told apart."""
    first_sample = pq.read_table(folder / "rubrics.parquet", columns=["sample_id"])[0][0].as_py()
    names = {"runs/ID": "runs/first", "s17": first_sample}
    program, *arguments = shlex.split(
        re.sub("runs/ID|s17", lambda name: names[name[0]], ENDPOINT.sub(endpoint, command))
    )
    if program == "export":
        return Outcome(0, "", "")
    if program == "sqlite3":
        with sqlite3.connect(f"file:{folder / arguments[0]}?mode=ro", uri=True) as database:
            return Outcome(0 if database.execute(arguments[1]).fetchall() else 1, "", "")
    assert program == "rubricworks", command
    return rubricworks(*arguments, cwd=folder, OPENAI_API_KEY="sk-of-the-test")


def write_files(folder: Path, page: str, endpoint: str) -> None:
    """Files and runs that the pages name."""
    runs = folder / "runs"
    for name in ("d1", "a", "b"):
        shutil.copytree(runs / "first", runs / name)
    if page in ("README.md", "docs/cluster.md"):
        recipe = yaml.safe_load(recipe_path("rubicap").read_text())
        (folder / "my.yaml").write_text(yaml.safe_dump(recipe | {"cluster": CLUSTER}))
    else:
        write_recipe(folder / "my.yaml", folder / "photos", endpoint, dict.fromkeys(ROLES, OneModel.name))
    if page == "docs/recaptioning.md":
        shutil.rmtree(folder / "captions")
    block = (ROOT / "docs" / "own-rewards.md").read_text().partition("```python\n")[2].partition("```")[0]
    (folder / "my_rewards.py").write_text(block)
    _write_rubric_sets(folder)
    _write_captions(folder)


ROLES = ("captioner-1", "captioner-2", "captioner-3", "writer", "judge", "pairwise")


def _write_rubric_sets(folder: Path) -> None:
    for name in ("healthbench.jsonl", "2025-05-07-06-14-12_oss_eval.jsonl"):
        shutil.copyfile(FILES / "healthbench.jsonl", folder / name)
    rows = [json.loads(line) for line in (FILES / "rar.jsonl").read_text().splitlines()]
    pq.write_table(pa.Table.from_pylist(rows), folder / "rar-science.parquet")
    answers = [
        {"sample_id": row["prompt_id"], "response": "Call for help."}
        for row in map(json.loads, (FILES / "healthbench.jsonl").read_text().splitlines())
    ]
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers))


def _write_captions(folder: Path) -> None:
    """Pictures, rubrics, captions, scorecards and people's labels of the first run, in the forms that pages name."""
    shutil.copytree(folder / "photos", folder / "coco")
    names = sorted(path.name for path in (folder / "photos").glob("*.jpg"))
    pictures = [{"image": (folder / "photos" / name).read_bytes(), "key": name} for name in names[:4]]
    pq.write_table(pa.Table.from_pylist(pictures), folder / "blip.parquet")

    rubrics = list(read_rows(folder / "runs/first/synthesize_rubrics", columns=["sample_id", "rubric"]))
    pq.write_table(pa.Table.from_pylist(rubrics), folder / "old.parquet")
    pq.write_table(pa.Table.from_pylist(rubrics[1:]), folder / "new.parquet")
    pq.write_table(pa.Table.from_pylist(rubrics), folder / "rubrics.parquet")

    captions = [{"file_name": name, "caption": f"a photograph, {number}"} for number, name in enumerate(names)]
    (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in captions))
    pq.write_table(pa.Table.from_pylist(captions), folder / "other.parquet")
    shutil.copyfile(folder / "mine" / "captions.parquet", folder / "captions.parquet")

    shutil.copytree(folder / "runs/first/train_policy/scorecards", folder / "scorecards")
    graded = pq.read_table(folder / "scorecards.parquet").to_pylist()
    verdicts = [(row["sample_id"], v) for row in graded for v in json.loads(row["scorecard"])["verdicts"]]
    items = {(sample, verdict["criterion"]): int(verdict["credit"]) for sample, verdict in verdicts}
    rows = map(json.loads, (FILES / "healthbench.jsonl").read_text().splitlines())
    items |= {(row["prompt_id"], criterion["criterion"]): 1 for row in rows for criterion in row["rubrics"]}
    with (folder / "labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["sample_id", "criterion", "label", "rater"])
        for (sample, criterion), credit in items.items():
            for rater, errors in RATERS.items():
                is_wrong = zlib.crc32(f"{sample} {criterion} {rater}".encode()) % 100 < errors
                writer.writerow([sample, criterion, int(credit != is_wrong), rater])
    (folder / "people.csv").write_text("model,standing\nmine,2\ntheirs,1\n")
