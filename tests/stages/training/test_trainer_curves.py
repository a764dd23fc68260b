"""Curves of a trainer, as its log lines make them and as pages read them."""

import json

from rubricworks.stages.training.trainer_curves import TrainerCurves
from rubricworks.training.progress import StepLog


def test_trainer_curves_have_speed_memory_and_the_spread_of_rewards(tmp_path):
    curves = TrainerCurves(tmp_path, "train_policy")
    for step, tokens in ((10, 1000.0), (20, 3000.0)):
        metrics = {"entropy": 2.5, "frac_reward_zero_std": 0.25, "num_tokens": tokens, "clip_ratio/low_mean": 0.1}
        curves.add(StepLog(step, 40, metrics, 0.5, 10.0))
    lines = (tmp_path / "state" / "train_policy" / "curves.jsonl").read_text().splitlines()
    first, second = map(json.loads, lines)
    assert {name: first[name] for name in ("step", "entropy", "zero_spread")} == {
        "step": 10,
        "entropy": 2.5,
        "zero_spread": 0.25,
    }
    assert "tokens_per_second" not in first, "one line tells no speed"
    assert second["tokens_per_second"] == 400.0
    assert 0.001 < second["memory_gb"] < 10_000
    assert "clip_ratio/low_mean" not in second
