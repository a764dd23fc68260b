"""Every recipe for laptops runs to its report, in small; those with tests of their own are run there."""

from pathlib import Path

import pytest
from laptop_recipes import SMALL
from tiny_run import finish_run, settings

from rubricworks.data.ledger import read_ledger
from rubricworks.data.tables import read_rows

pytestmark = pytest.mark.slow

RECIPES = Path(__file__).parents[2] / "recipes"
RUN_ELSEWHERE = {"rlr3-laptop": "test_rlr3.py", "retrain-laptop": "test_quickstart.py"}


def test_every_recipe_for_laptops_is_run():
    """Of those that bring their own data and models."""
    laptop = {path.stem for path in RECIPES.glob("*-laptop.yaml") if "\nworld:" in path.read_text()}
    assert laptop == SMALL.keys() | RUN_ELSEWHERE.keys()


@pytest.mark.parametrize("recipe", SMALL)
def test_recipe_ends_in_scores_and_a_report(recipe, tmp_path):
    output = finish_run(tmp_path, recipe, *settings(SMALL[recipe]), "--run", "small")
    run = tmp_path / "small"
    assert f"report: {run / 'report.html'}" in output
    assert (run / "report.html").read_text().lstrip().lower().startswith("<!doctype html>")
    scores = [row["value"] for row in read_rows(run / "score")]
    assert scores
    assert any(value is not None for value in scores)
    assert not [line["stage"] for line in read_ledger(run) if line.get("outcome") == "failed"]
