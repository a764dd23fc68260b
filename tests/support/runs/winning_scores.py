"""Scores of a policy that wins over its base, as the stage `score` leaves them."""

from rubricworks.evaluation.scoreboard import ModelScores, Scoreboard
from rubricworks.metrics import Interval


def winning_scores() -> Scoreboard:
    base = ModelScores(model="base", decoding="greedy", means={"b_capscore": _interval(0.4)})
    policy = ModelScores(
        model="policy",
        decoding="greedy",
        means={"b_capscore": _interval(0.6), "arena_win": _interval(0.7)},
        gains={"b_capscore": _interval(0.3)},
    )
    return Scoreboard(base="base", models=(base, policy), headlines=("b_capscore", "arena_win"))


def _interval(value: float) -> Interval:
    return Interval(value=value, low=value - 0.05, high=value + 0.05, samples=40)
