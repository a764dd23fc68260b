"""Defaults that the page fills in for missing fields, against the defaults of the stage."""

from rubricworks.methods.balcaprl.stages.train_balcaprl import Config
from rubricworks.methods.balcaprl.training_settings import training_settings

JUDGE = {"url": "http://judges:8000/v1", "model": "assertion-judge-x"}


def test_settings_that_the_recipe_leaves_out_are_those_that_training_has() -> None:
    config = Config.model_validate({"judge": JUDGE})
    result = training_settings({"policy": {"judge": JUDGE}})
    assert (result.method, result.reward, result.objective) == (config.method, config.reward, config.objective)
    assert result.weights == config.weights.in_order
    assert (result.control, result.bounds) == (config.length.control, (config.length.lower, config.length.upper))
    assert (result.pointability, result.judge) == (config.pointability, "assertion-judge-x")


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
    result = training_settings({"policy": policy})
    assert result.weights == config.weights.in_order == (0.3, 0.3, 0.3)
    assert (result.control, result.bounds, result.gate) == ("linear", (0.5, config.length.upper), None)
    assert (result.objective, result.pointability, result.verifier) == ("grpo", "off", "looks")
