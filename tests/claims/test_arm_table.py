"""Tables of arms of pipelines with and without rows, labels and columns of their own."""

from rubricworks.claims.arm_table import arm_form, arm_rows
from rubricworks.evaluation.scoreboard import ModelScores, Scoreboard
from rubricworks.metrics import Interval


def board(policy: float) -> Scoreboard:
    def scores(model: str, value: float) -> ModelScores:
        means = {
            "answers_right": Interval(value=value),
            "length_tokens": Interval(value=9.0),
            "other": Interval(value=1),
        }
        return ModelScores(model=model, decoding="greedy", means=means)

    titles = {"answers_right": "Right answers"}
    models = (scores("base", 0.25), scores("learner", policy))
    return Scoreboard(base="base", policy="learner", models=models, titles=titles, headlines=("answers_right",))


def test_arms_of_any_pipeline_are_compared_by_the_first_figure_of_each_scorer(tmp_path):
    boards = {"own": board(0.5), "longer": board(0.75)}
    form = arm_form("rlr3", boards["own"])
    assert {figure: column.title for figure, column in form.columns.items()} == {
        "answers_right": "Right answers",
        "length_tokens": "Length",
    }
    rows = arm_rows(boards, dict.fromkeys(boards, tmp_path), form)
    assert {arm: row.figures["answers_right"].value for arm, row in rows.items()} == {
        "base": 0.25,
        "own": 0.5,
        "longer": 0.75,
    }
    assert [row.label for row in rows.values()] == ["Base model", "The recipe", "longer"]
