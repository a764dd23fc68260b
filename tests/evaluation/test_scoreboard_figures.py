"""Figures of a scoreboard against numbers by hand."""

from typing import Any

import pytest

from rubricworks.evaluation.scoreboard import Scoreboard, summarise_scores
from rubricworks.evaluation.scorers.comparisons.blind_ranking import BlindRankingScorer
from rubricworks.evaluation.scorers.functions import FunctionScorer
from rubricworks.evaluation.scorers.images.painted_order import PaintedOrderScorer
from rubricworks.metrics import bootstrap_interval
from rubricworks.reports.results import gain_tile
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


def test_best_milestone_of_a_figure_of_which_less_is_better_is_the_lowest():
    steps = {50: 0.3, 100: 0.1, 150: 0.2}
    rows = [row | {"step": step} for step, value in steps.items() for row in scores("a", "policy", penalty=value)]
    rows += scores("a", "base", penalty=0.4)
    assert summarise_scores(rows, select_by="penalty").best == {"policy": 50}
    assert summarise_scores(rows, select_by="penalty", lower_is_better=["penalty"]).best == {"policy": 100}


def test_page_calls_a_rise_worse_where_less_is_better():
    rows = [row for number in range(30) for row in scores(f"s{number}", "base", penalty=0.2 + 0.01 * (number % 3))]
    rows += [row for number in range(30) for row in scores(f"s{number}", "policy", penalty=0.4)]
    board = summarise_scores(rows, policy="policy")
    assert gain_tile(board, "penalty").kind == ""
    board = summarise_scores(rows, policy="policy", lower_is_better=["penalty"])
    assert gain_tile(board, "penalty").kind == "worse"


def test_scorers_state_of_which_parts_less_is_better():
    judge = {"url": "http://judge:8000/v1", "model": "judge"}
    ranking, painted = BlindRankingScorer(judge=judge), PaintedOrderScorer(judge=judge)
    own = FunctionScorer(function="mine:inventions", penalties=("score",))
    assert (ranking.lower_is_better, painted.lower_is_better) == (("rank", "hallucination"), ("rise", "masked"))
    titles = ranking.titles() | painted.titles() | own.titles()
    told = {figure for figure, title in titles.items() if title.endswith(" (lower is better)")}
    assert told == {"blind_ranking_rank", "blind_ranking_hallucination", "painted_order_rise", "inventions"}
