"""RubiCap's arms: the paper's baselines on one recipe, the table's rows, the figures of the runs' scoreboards."""

import pytest
import yaml
from compared_arms import arm_table

from rubricworks.claims.arm_table import arm_form, markdown, text
from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import ModelScores, Scoreboard
from rubricworks.metrics import Interval
from rubricworks.recipe.files import load_recipe, recipe_path

LAPTOP = "rubicap-laptop"
FORM = arm_form("rubicap")
TABLES = {name: table.rows for name, table in FORM.tables.items()}


def figure(value):
    return Interval(value=value, low=value - 0.02, high=value + 0.02, samples=8)


def write_run(folder, arm, win, base=30.0, rubric=0.4):
    recipe = load_recipe(recipe_path(LAPTOP), ["seed=1"], arm=arm)
    saved = recipe.model_dump(mode="json", exclude_defaults=True, exclude={"arms"})
    (folder / "score").mkdir(parents=True)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(saved))

    def scores(model, means):
        return ModelScores(model=model, decoding="greedy", means={name: figure(value) for name, value in means.items()})

    figures = {"arena_win": win, "coco_rouge_l": 0.6, "rubric_reward": rubric + 0.2, "length_tokens": base + 2}
    models = (scores("base", {"rubric_reward": rubric, "length_tokens": base}), scores("policy", figures))
    (folder / "score" / "scores.json").write_text(Scoreboard(base="base", models=models).model_dump_json())
    (folder / "score" / "done.json").write_text("{}")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rubicap", LAPTOP])
def test_ten_arms_share_what_comes_before_the_training(name):
    recipe = load_recipe(recipe_path(name))
    assert FORM.default == "baselines"
    rows = FORM.rows_of(FORM.default, recipe.arms)
    assert len(rows) == 10
    assert set(rows) | set(TABLES["hacking"]) <= set(FORM.labels)
    own = recipe.stage_json()
    for arm in set(rows) - {"own"}:
        of_arm = load_recipe(recipe_path(name), arm=arm).stage_json()
        changed = {stage for stage in own if own[stage] != of_arm[stage]} - {"promote"}
        assert changed == ({"synthesize_rubrics"} if arm == "full_guards" else {"train_policy"}), arm
    # RL differs in the reward alone, SFT in what is learnt.
    policies = {arm: load_recipe(recipe_path(name), arm=arm).policy for arm in set(rows) - {"own", "full_guards"}}
    algorithms = [policy.algorithm for arm, policy in policies.items() if "sft" not in arm]
    assert algorithms == [recipe.policy.algorithm] * len(algorithms)
    supervised = [policy.algorithm for arm, policy in policies.items() if "sft" in arm]
    assert name == LAPTOP or all(algorithm.epochs == 1 for algorithm in supervised)  # as the RL arms
    assert len({(algorithm.steps, algorithm.epochs, algorithm.batch_size) for algorithm in supervised}) == 1
    assert len({algorithm.optimizer for algorithm in supervised}) == 1


def test_the_table_shows_each_arm_and_no_reward_by_other_rubrics(tmp_path):
    folders = {
        "own": write_run(tmp_path / "own", None, 0.7),
        "rouge_l": write_run(tmp_path / "rouge_l", "rouge_l", 0.4),
        "full_guards": write_run(tmp_path / "full", "full_guards", 0.8, rubric=0.6),
    }
    table = arm_table("rubicap", folders)
    assert [row.arm for row in table.rows] == ["base", "own", "rouge_l", "full_guards"]
    cells = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.strip("|").split("|")][1:]
        for line in markdown(table, FORM).splitlines()
        if line.startswith("| ")
    }
    assert cells["ROUGE-L RL"] == [
        "40.0 (38.0–42.0)", "60.0 (58.0–62.0)", "–", "–", "–", "60.0 (58.0–62.0)", "–", "32.0 (32.0–32.0)",  # noqa: RUF001
    ]  # fmt: skip
    assert cells["RubiCap, full, guards"][5] == "–"  # noqa: RUF001
    assert cells["Base model"][0] == "50.0"
    assert max(map(len, text(table, FORM).splitlines())) <= 100
    assert table.rows[1].figures["arena_win"].value == 0.7


def test_arms_of_another_start_are_not_compared(tmp_path):
    own = write_run(tmp_path / "own", None, 0.7)
    other = write_run(tmp_path / "caprl", "caprl", 0.6, base=31.0)
    with pytest.raises(UserError, match="its base model does not answer as that of"):
        arm_table("rubicap", {"own": own, "caprl": other})


def test_noisy_arms_differ_in_the_correction_only():
    noisy, corrected = (load_recipe(recipe_path(LAPTOP), arm=arm) for arm in TABLES["noise"][1:])
    assert set(TABLES["noise"]) <= set(FORM.labels)
    assert noisy.policy.reward.judge.model == "uneven-judge"
    assert noisy.evaluation.scorers.rubric.judge.model == "judge"
    assert corrected.policy.reward.noise_correction.by_weight
    assert corrected.policy.reward.model_copy(update={"noise_correction": None}) == noisy.policy.reward
    assert corrected.policy.algorithm == noisy.policy.algorithm
