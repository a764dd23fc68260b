"""What the page fills in for fields that a recipe leaves out, against the stage that has the defaults."""

from rubricworks.methods.balcaprl.report.settings import training_settings
from rubricworks.methods.balcaprl.stages.train_balcaprl import Config

JUDGE = {"url": "http://judges:8000/v1", "model": "assertion-judge-x"}


def test_settings_that_the_recipe_leaves_out_are_those_that_training_has() -> None:
    config = Config.model_validate({"judge": JUDGE})
    found = training_settings({"policy": {"judge": JUDGE}})
    assert (found.method, found.reward, found.objective) == (config.method, config.reward, config.objective)
    assert found.weights == config.weights.in_order
    assert (found.control, found.bounds) == (config.length.control, (config.length.lower, config.length.upper))
    assert (found.pointability, found.judge) == (config.pointability, "assertion-judge-x")


def test_settings_of_a_recipe_are_told_as_training_reads_them() -> None:
    policy = {
        "judge": JUDGE,
        "verifier": {**JUDGE, "model": "looks"},
        "weights": {"precision": 0.3},
        "length": {"control": "linear", "upper": 3.0},
        "objective": "grpo",
        "pointability": "off",
    }
    config = Config.model_validate(policy)
    found = training_settings({"policy": policy})
    assert found.weights == config.weights.in_order == (0.3, 0.3, 0.3)
    assert (found.control, found.bounds, found.gate) == ("linear", (0.5, config.length.upper), None)
    assert (found.objective, found.pointability, found.verifier) == ("grpo", "off", "looks")
