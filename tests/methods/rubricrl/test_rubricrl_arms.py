"""Arms of RubricRL: one change each, the paper's rows, the figures of the runs' scoreboards."""

import pytest
import yaml
from compared_arms import arm_table

from rubricworks.claims.arm_table import arm_form, markdown, text
from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import ModelScores, Scoreboard
from rubricworks.metrics import Interval
from rubricworks.recipe.files import load_recipe, recipe_path

LAPTOP = "rubricrl-ar-laptop"
FORM = arm_form("rubricrl")
TABLES = {name: table.rows for name, table in FORM.tables.items()}
RECIPES = (LAPTOP, "rubricrl-diffusion-laptop")


def figure(value):
    return Interval(value=value, low=value - 0.02, high=value + 0.02, samples=8)


def write_run(folder, arm, overall, base=0.5):
    recipe = load_recipe(recipe_path(LAPTOP), ["seed=1"], arm=arm)
    saved = recipe.model_dump(mode="json", exclude_defaults=True, exclude={"arms"})
    (folder / "score").mkdir(parents=True)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(saved))

    def scores(model, value, gains):
        means = {"geneval_correct": figure(value), "rubric_reward": figure(value + 0.3)}
        tasks = {"geneval_correct": {"counting": figure(value - 0.1)}}
        return ModelScores(model=model, decoding="sampled", means=means, gains=gains, tasks=tasks)

    gains = {"geneval_correct": figure(overall - base)}
    board = Scoreboard(base="base", models=(scores("base", base, {}), scores("policy", overall, gains)))
    (folder / "score" / "scores.json").write_text(board.model_dump_json())
    (folder / "score" / "done.json").write_text("{}")
    return folder


def runs(tmp_path, **overall):
    return {arm: write_run(tmp_path / arm, None if arm == "own" else arm, value) for arm, value in overall.items()}


def test_every_arm_of_the_recipes_is_in_a_table_and_has_a_label():
    arms = {recipe: load_recipe(recipe_path(recipe)).arms for recipe in RECIPES}
    in_tables = {row for rows in TABLES.values() for row in rows} - {"own"}
    assert set().union(*arms.values()) == in_tables == set(FORM.labels) - {"base", "own"}
    assert FORM.rows_of("selection", arms[RECIPES[0]]) == ["vanilla", "ffkc_1d", "dapo", "own"]
    assert FORM.rows_of("selection", arms[RECIPES[1]]) == ["hybrid", "ffkc_1d", "dapo", "own"]
    assert set(TABLES["all"]) == in_tables | {"own"}
    # Arms change the training alone, so that all share prompts, rubrics and the pretrained generator.
    changed = {field.partition(".")[0] for of_one in arms.values() for changes in of_one.values() for field in changes}
    assert changed == {"policy"}


def test_a_table_shows_the_scores_of_the_start_and_of_every_arm(tmp_path):
    table = arm_table("rubricrl", runs(tmp_path, vanilla=0.56, own=0.6))
    assert [row.arm for row in table.rows] == ["base", "vanilla", "own"]
    line = next(line for line in markdown(table, FORM).splitlines() if line.startswith("| Vanilla"))
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "Vanilla, no dynamics", "56.0 (54.0–58.0)", "6.0 (4.0–8.0)",  # noqa: RUF001
        "–", "–", "46.0 (44.0–48.0)", "–", "–", "–", "86.0 (84.0–88.0)",  # noqa: RUF001
    ]  # fmt: skip
    assert max(map(len, text(table, FORM).splitlines())) <= 100
    assert table.rows[0].figures["geneval_correct"].value == 0.5


def test_arms_of_another_start_are_not_compared(tmp_path):
    own = runs(tmp_path, own=0.6)
    other = write_run(tmp_path / "sft", "sft", 0.6, base=0.4)
    with pytest.raises(UserError, match="its base model does not answer as that of"):
        arm_table("rubricrl", {**own, "sft": other})
