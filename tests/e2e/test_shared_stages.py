"""A second run that differs in its evaluation alone takes everything else from the first, through the command line."""

import json
from pathlib import Path

import pytest
from kills import differing, products
from tiny_run import TINY, Run, settings

from rubricworks.reports.run_folder import read_ledger

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

SHARED = ["warm_up", "caption_committee", "caption_student", "synthesize_rubrics", "train_policy"]
ITS_OWN = ["prepare", "score", "promote", "report"]


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    Run(runs, "quickstart", *settings(TINY), "--run", "main").finish()
    return runs


def test_what_is_made_from_the_same_is_taken_and_the_rest_is_made(runs):
    before = everything(runs / "main")
    other = ["--set", "evaluation.scorers.arena.order=both", "--run", "other", "--reuse", "main"]
    said = Run(runs, "quickstart", *settings(TINY), *other).finish()

    lines = {line["stage"]: line for line in read_ledger(runs / "other")}
    assert {stage for stage in lines if lines[stage].get("reused") == "main"} == set(SHARED)
    assert lines.keys() == {*SHARED, *ITS_OWN}
    assert said.count("| taken from main") == len(SHARED)
    assert said.count("| not taken from main: its configuration differs") == 1
    # The images lie in another folder, and count as the same because they are.
    assert (
        differing(products(runs / "other", ["prepare", *SHARED]), products(runs / "main", ["prepare", *SHARED])) == []
    )
    assert everything(runs / "main") == before
    assert (runs / "other" / "report.html").is_file()
    summary = json.loads((runs / "other" / "summary.json").read_text())
    assert summary["oracle_f1"]["policy"] is not None

    again = Run(runs, "--resume", "other").finish()
    assert "taken from" not in again


def test_in_another_world_nothing_is_the_same(runs):
    small = {**TINY, "policy.steps": 2, "world.seed": 5}
    Run(runs, "quickstart", *settings(small), "--run", "elsewhere", "--reuse", "main").finish()
    assert not any("reused" in line for line in read_ledger(runs / "elsewhere"))
