"""docs/first-run.md as written: its commands, one after the other, on forty photographs and a server with one model."""

import json
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest
import yaml
from own_recipe import Outcome, rubricworks
from photographs import take_forty
from scripted_server import ScriptedServer
from stub_models import OneModel

from rubricworks.data.tables import read_rows
from rubricworks.llm.preflight import QUESTION

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "first-run.md"
URL = "http://localhost:8000/v1"
_BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class FirstRun(NamedTuple):
    folder: Path
    outcomes: dict[str, Outcome]
    """Command of the page → what it ended in, in the page's order."""
    model: OneModel

    def outcome(self, beginning: str) -> Outcome:
        return next(outcome for command, outcome in self.outcomes.items() if command.startswith(beginning))


def page_commands() -> list[str]:
    lines = (line for kind, text in _BLOCK.findall(PAGE.read_text()) if kind == "sh" for line in text.splitlines())
    return [line for line in lines if line.startswith("rubricworks ")]


@pytest.fixture(scope="module")
def first_run(tmp_path_factory) -> FirstRun:
    folder = tmp_path_factory.mktemp("first")
    take_forty(folder / "photos")
    model = OneModel()
    server = ScriptedServer(model)
    outcomes = {}
    try:
        for command in page_commands():
            _, *arguments = shlex.split(command.replace(URL, server.url))
            outcomes[command] = outcome = rubricworks(*arguments, cwd=folder)
            assert outcome.code == 0, f"{command}\n{outcome.out}\n{outcome.err}"
            assert "Traceback" not in outcome.err
    finally:
        server.close()
    return FirstRun(folder, outcomes, model)


def test_init_says_what_the_page_shows(first_run):
    (shown,) = (text for kind, text in _BLOCK.findall(PAGE.read_text()) if kind == "text")
    assert first_run.outcome("rubricworks init").out == shown


def test_the_dry_run_counts_what_the_page_says(first_run):
    out = first_run.outcome("rubricworks run first.yaml --dry-run").out
    calls = {(f[0], f[2]): int(f[1]) for line in out.splitlines() if len(f := line.split()) > 4 and f[1].isdigit()}
    assert calls == {
        ("caption_committee", "caption"): 200,
        ("synthesize_rubrics", "rubric"): 40,
        ("train_policy", "judge"): 640,
        ("score", "judge"): 80,
        ("score", "arena"): 80,
    }
    page = PAGE.read_text()
    assert "200 captions, 40 rubrics, 640 verdicts on rollouts and 160 for the evaluation" in page


def test_doctor_finds_the_captions_and_nothing_to_fix(first_run):
    out = first_run.outcome("rubricworks doctor").out
    assert re.search(r"captions +20 images to warm up on", out)
    assert out.splitlines()[-1] == "ready: rubricworks run first.yaml"


def test_the_run_ends_in_everything_that_the_page_lists(first_run):
    listed = re.findall(r"^\| `(runs/first/[^`]+)`", PAGE.read_text(), re.MULTILINE)
    assert len(listed) == 5
    for path in listed:
        assert (first_run.folder / path).exists(), path
    summary = json.loads((first_run.folder / "runs/first/summary.json").read_text())
    assert summary["rubric_reward"]["policy"] > 0
    rubrics = list(read_rows(first_run.folder / "runs/first/synthesize_rubrics"))
    assert len(rubrics) == 40


def test_teachers_are_asked_their_own_prompt_and_the_student_its_short_one(first_run):
    recipe = yaml.safe_load((first_run.folder / "first.yaml").read_text())
    assert recipe["data"]["prompt"] == "describe the image"
    assert recipe["committee"]["prompt"].startswith("Write a detailed caption")
    asked = [text for text in first_run.model.prompts if text != QUESTION]
    assert asked[:200] == [recipe["committee"]["prompt"]] * 200
    rows = read_rows(first_run.folder / "runs/first/prepare", columns=["prompt"])
    assert {row["prompt"] for row in rows} == {"describe the image"}


def test_a_small_model_directory_of_ones_own_is_trained_without_a_gpu(first_run):
    recipe = yaml.safe_load((first_run.folder / "second.yaml").read_text())
    assert recipe["warm_up"] == {"student": str(first_run.folder / "runs/first/train_policy/model")}
    assert (first_run.folder / "runs/second/report.html").exists()


def test_grade_of_the_trained_models_captions_has_a_reward_for_every_image(first_run):
    rows = pq.read_table(first_run.folder / "scorecards.parquet").to_pylist()
    assert len(rows) == 40
    assert all(row["reward"] is not None for row in rows)
