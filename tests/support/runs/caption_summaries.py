"""Evaluations of captions as the gate reads them."""

from rubricworks.evaluation.scoreboard import ModelScores, Scoreboard


def figure(value: float, low: float, high: float) -> dict:
    return {"value": value, "low": low, "high": high, "samples": 40}


def summary(gain: tuple[float, float, float] | None, win: tuple[float, float, float] | None) -> Scoreboard:
    """An evaluation with this gain of b-CapScore and this win rate."""
    base = {"b_capscore": figure(0.4, 0.35, 0.45), "dc_score": figure(0.5, 0.4, 0.6)}
    policy = {"b_capscore": figure(0.6, 0.55, 0.65), "length_tokens": figure(40, 38, 42)}
    return Scoreboard(
        base="base",
        models=(
            ModelScores(model="base", decoding="greedy", means=base),
            ModelScores(
                model="policy",
                decoding="greedy",
                means=policy | ({"arena_win": figure(*win)} if win else {}),
                gains={"b_capscore": figure(*gain)} if gain else {},
            ),
        ),
        headlines=("arena_win", "b_capscore", "dc_score"),
    )
