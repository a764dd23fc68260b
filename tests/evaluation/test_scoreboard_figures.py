"""Figures of a scoreboard against numbers by hand."""

from typing import Any

import pytest

from rubricworks.evaluation.scoreboard import Scoreboard, summarise_scores
from rubricworks.metrics import bootstrap_interval
from rubricworks.stages.release.promote import gate_figures


def scores(sample: str, model: str, **values: float | None) -> list[dict[str, Any]]:
    """Rows of one response: scorer → value."""
    row = {"sample_id": sample, "model": model, "step": None, "decoding": "greedy", "version": "1"}
    parts = {"arena": "win", "length": "tokens"}
    return [
        {
            **row,
            "scorer": scorer,
            "part": parts.get(scorer, "score"),
            "value": value,
            "against": "base" if scorer == "arena" else None,
        }
        for scorer, value in values.items()
    ]


ROWS = [
    *scores("a", "base", b_capscore=0.1, dc_score=0.5, length=8),
    *scores("b", "base", b_capscore=0.9, dc_score=0.25, length=10),
    *scores("c", "base", b_capscore=None, dc_score=0.25, length=10),
    *scores("a", "policy", b_capscore=0.4, dc_score=None, length=12, arena=1.0),
    *scores("b", "policy", b_capscore=None, dc_score=0.75, length=10, arena=0.5),
    *scores("c", "policy", b_capscore=0.8, dc_score=0.5, length=10, arena=None),
]


def test_means_leave_out_and_count_what_was_not_judged():
    board = summarise_scores(ROWS)
    base = board.mean("base", "b_capscore")
    assert (base.value, base.samples, base.missing) == (0.5, 2, 1)
    assert board.mean("policy", "b_capscore").value == pytest.approx(0.6)
    assert board.mean("base", "length_tokens").value == pytest.approx(28 / 3)
    assert board.mean("policy", "length_tokens").value == pytest.approx(32 / 3)
    assert board.mean("base", "caption_qa") is None


def test_gain_is_of_the_samples_where_both_were_judged():
    board = summarise_scores(ROWS)
    gain = board.gain("policy", "b_capscore")
    # Unpaired, it would be 0.6 - 0.5.
    assert (gain.value, gain.samples) == (pytest.approx(0.3), 1)
    gain = board.gain("policy", "dc_score")
    assert (gain.value, gain.missing) == (pytest.approx((0.5 + 0.25) / 2), 1)
    assert board.gain("policy", "length_tokens").value == pytest.approx(4 / 3)
    assert board.gain("policy", "arena_win") is None
    assert board.gain("base", "dc_score") is None


def test_interval_of_a_gain_is_that_of_its_differences():
    differences = [0.1 + 0.01 * (n % 3) for n in range(40)]
    rows = [row for n in range(40) for row in scores(str(n), "base", dc_score=0.01 * n)]
    rows += [row for n, more in enumerate(differences) for row in scores(str(n), "policy", dc_score=0.01 * n + more)]
    gain = summarise_scores(rows).gain("policy", "dc_score")
    expected = bootstrap_interval(differences)
    assert (gain.value, gain.low, gain.high) == pytest.approx((expected.value, expected.low, expected.high))
    assert gain.high - gain.low < 0.01  # the samples differ by far more


def test_win_rate_and_metrics_by_name():
    board = summarise_scores(ROWS)
    assert (board.mean("policy", "arena_win").value, board.mean("policy", "arena_win").missing) == (0.75, 1)
    assert board.metrics() == pytest.approx(
        {
            "greedy/base/b_capscore": 0.5,
            "greedy/base/dc_score": 1 / 3,
            "greedy/base/length_tokens": 28 / 3,
            "greedy/policy/b_capscore": 0.6,
            "greedy/policy/dc_score": 0.625,
            "greedy/policy/length_tokens": 32 / 3,
            "greedy/policy/arena_win": 0.75,
        }
    )


def test_board_survives_json():
    board = summarise_scores(ROWS, scorers=["b_capscore"], titles={"b_capscore": "b-CapScore"})
    assert Scoreboard.model_validate_json(board.model_dump_json()) == board


def test_two_scores_of_one_response_are_refused():
    with pytest.raises(ValueError, match="two scores of sample a by base: b_capscore"):
        summarise_scores([*ROWS, ROWS[0]])


def test_all_wins_leave_a_doubt_and_differences_that_are_all_0_leave_none():
    rows = [row for n in range(10) for row in scores(str(n), "base", caption_qa=1.0, length=1)]
    rows += [row for n in range(10) for row in scores(str(n), "policy", caption_qa=1.0, length=1, arena=1.0)]
    board = summarise_scores(rows)
    lower = pytest.approx(0.722467, abs=1e-6)  # Wilson's for 10 of 10: 10 / (10 + 1.959964²)
    win = board.mean("policy", "arena_win")
    assert (win.value, win.low, win.high) == (1, lower, 1)
    assert board.mean("policy", "caption_qa").low == lower
    gain = board.gain("policy", "caption_qa")
    assert (gain.low, gain.high) == (0, 0)
    tokens = board.mean("policy", "length_tokens")  # a length of 1 is no share
    assert (tokens.low, tokens.high) == (1, 1)


def test_the_gate_looks_at_the_model_that_the_run_trained_whatever_else_was_scored():
    rows = [*ROWS, *scores("a", "another", b_capscore=1.0), *scores("b", "another", b_capscore=1.0)]
    board = summarise_scores(rows, policy="policy")
    assert board.candidate == "policy"
    assert gate_figures(board)["b_capscore"] == {"base": pytest.approx(0.5), "policy": pytest.approx(0.6)}
    assert summarise_scores(rows).candidate == "another"
