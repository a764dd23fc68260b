"""docs/first-run.md as written, on forty photographs and a server with one model."""

import json
import re

import pyarrow.parquet as pq
import pytest
import yaml
from page_commands import ROOT, page_steps, stable

from rubricworks.data.tables import read_rows
from rubricworks.llm.preflight import QUESTION

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "first-run.md"


@pytest.mark.parametrize("command", [step.command for step in page_steps(PAGE) if step.shown])
def test_page_shows_what_the_command_prints(first_run, command):
    (shown,) = (step.shown for step in page_steps(PAGE) if step.command == command)
    assert stable(first_run.outcomes[command].out, first_run.folder) == stable(shown, first_run.folder)


LIBRARIES = re.compile(
    r"(?i:\b(alembic|uvicorn|kfp|kubeflow|transformers|torch|trl|executor_input)\b|mlflow\.(?!db))|[A-Z]\w+Warning:"
)


def test_no_library_speaks_where_users_look(first_run):
    """On the terminal, and in the logs of stages, which `runs logs` and the pages show."""
    told = {command: outcome.out + outcome.err for command, outcome in first_run.outcomes.items()}
    logs = first_run.folder.glob("runs/*/logs/*.log")
    told |= {str(path): path.read_text() for path in logs if path.name != "kfp.log"}
    assert len(told) > 20
    lines = [(where, line) for where, text in told.items() for line in text.splitlines() if LIBRARIES.search(line)]
    assert lines == []


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
    asked = [text for text in first_run.prompts if text != QUESTION]
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
