"""Evaluations of captions as the gate reads them."""

from rubricworks.evaluation.caption_summary import CaptionSummary


def figure(value: float, low: float, high: float) -> dict:
    return {"value": value, "low": low, "high": high, "samples": 40}


def summary(gain: tuple[float, float, float] | None, win: tuple[float, float, float] | None) -> CaptionSummary:
    """An evaluation with this gain of b-CapScore and this win rate."""
    return CaptionSummary(
        models={
            "base": {"b_capscore": figure(0.4, 0.35, 0.45), "dc_score": figure(0.5, 0.4, 0.6)},
            "policy": {"b_capscore": figure(0.6, 0.55, 0.65), "tokens": figure(40, 38, 42)},
        },
        gains={"b_capscore": figure(*gain)} if gain else {},
        win_rate=figure(*win) if win else None,
    )
