"""CapArena's quirks by hand, symmetries of the ratings, and the optimum of the likelihood by Newton's method."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.metrics import (
    caparena_auto,
    caption_level_agreement,
    elo_bootstrap,
    elo_mle,
    elo_online,
    model_level_agreement,
)

FIRST, SECOND, TIE = "Caption 1 is better.", "Caption 2 is better", "Tie"
MODELS = ["a", "b", "c", "d"]


def battle(source1: str = "a", source2: str = "b", judge: str | None = FIRST, **more: object) -> dict:
    verdict = {} if judge is None else {"judge": judge}
    return {"source1": source1, "source2": source2, **verdict, **more}


def auto_battle(judge: str | None = FIRST, *, first: bool = True, baseline: str = "GPT-4o-0806") -> dict:
    sources = ("ours", baseline) if first else (baseline, "ours")
    return battle(*sources, judge, ref_model=baseline, caption1="one two", caption2="three four five six")


pairs = st.permutations(MODELS).map(lambda row: row[:2])
battles = st.lists(
    st.builds(lambda pair, judge: battle(*pair, judge), pairs, st.sampled_from([FIRST, SECOND, TIE])), max_size=40
)
decided = st.lists(
    st.builds(lambda pair, judge: battle(*pair, judge), pairs, st.sampled_from([FIRST, SECOND])),
    min_size=1,
    max_size=40,
)


def reversed_sides(row: dict) -> dict:
    return battle(row["source2"], row["source1"], {FIRST: SECOND, SECOND: FIRST, TIE: TIE}[row["judge"]])


def test_score_is_half_the_margin_and_unreadable_verdicts_count_for_the_length_alone():
    rows = [
        auto_battle(),
        auto_battle(first=False),
        auto_battle(SECOND, first=False),
        auto_battle("A"),
        auto_battle(None),
    ]
    score = caparena_auto({"ours": rows})["ours"]
    # Won, lost, won; two of five times the caption is the second, of four words.
    assert score == {"avg": 0.17, "gpt": 0.5, "cog": 0.0, "cpm": 0.0, "length": 2.8}


def test_best_average_comes_first():
    assert list(caparena_auto({"worse": [auto_battle(TIE)], "ours": [auto_battle(FIRST)]})) == ["ours", "worse"]


def test_battle_without_a_baseline_and_model_without_a_battle_are_refused():
    with pytest.raises(ValueError, match="battle 1 of ours is against nobody"):
        caparena_auto({"ours": [auto_battle(), auto_battle() | {"ref_model": "nobody"}]})
    with pytest.raises(ValueError, match="ours has no battle"):
        caparena_auto({"ours": []})


@given(st.lists(st.builds(auto_battle, st.sampled_from([FIRST, SECOND, TIE, "no idea", None]), first=st.booleans())))
def test_order_of_battles_does_not_matter_to_the_scores(rows):
    rows = [*rows, auto_battle()]
    assert caparena_auto({"ours": rows}) == caparena_auto({"ours": rows[::-1]})


def test_one_battle_moves_both_ratings_by_half_of_k():
    assert elo_online([battle()], k=32) == {"a": 1016, "b": 984}
    assert elo_online([battle(judge=TIE)]) == {"a": 1000, "b": 1000}


def test_battles_of_people_and_battles_without_a_verdict_do_not_count():
    rows = [battle(source2="human"), battle(judge=None)]
    assert elo_online(rows) == elo_mle(rows) == elo_bootstrap(rows) == {}


@given(battles)
def test_online_ratings_keep_their_sum_and_do_not_know_sides(rows):
    ratings = elo_online(rows)
    assert sum(ratings.values()) == pytest.approx(1000 * len(ratings))
    assert elo_online(map(reversed_sides, rows)) == pytest.approx(ratings)


@settings(max_examples=20)
@given(battles)
def test_resampled_ratings_hold_their_median(rows):
    for rating in elo_bootstrap(rows, resamples=30).values():
        assert rating.low <= rating.value <= rating.high


def coefficients(rows: list[dict]) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Features, wins and models of the logistic regression that the ratings come from, written out by the battle."""
    models = sorted({row[side] for row in rows for side in ("source1", "source2")})
    features = np.array(
        [[math.log(10) * ((row["source1"] == model) - (row["source2"] == model)) for model in models] for row in rows]
    )
    return features, np.array([row["judge"] == FIRST for row in rows], float), models


@given(battles.filter(bool))
def test_likelihood_ratings_are_within_the_stopping_rule_of_the_exact_optimum(rows):
    features, wins, models = coefficients(rows)
    exact = np.zeros(len(models))
    for _ in range(50):
        chances = 1 / (1 + np.exp(-features @ exact))
        curvature = features.T @ (features * (chances * (1 - chances))[:, None]) + np.eye(len(models))
        step = np.linalg.solve(curvature, features.T @ (chances - wins) + exact)
        # Half a step where a whole one would leave the region that Newton's method converges in.
        exact -= step / max(1, np.abs(step).max())
    ratings = elo_mle(rows)
    # The solver stops at a mean gradient of 1e-4; the penalty makes the curvature at least 1 in every direction.
    reach = 400 * 1e-4 * len(rows) * math.sqrt(len(models))
    assert [ratings[model] for model in models] == pytest.approx(list(400 * exact + 1000), abs=reach)


@given(decided)
def test_likelihood_ratings_do_not_know_the_order_of_battles_nor_sides(rows):
    reach = 2 * 400 * 1e-4 * len(rows) * math.sqrt(len(MODELS))
    ratings = elo_mle(rows)
    assert elo_mle(rows[::-1]) == pytest.approx(ratings, abs=reach)
    assert elo_mle(map(reversed_sides, rows)) == pytest.approx(ratings, abs=reach)


def test_tie_is_a_loss_of_the_first_in_the_likelihood():
    assert elo_mle([battle(judge=TIE)]) == elo_mle([battle(judge=SECOND)])


def test_agreement_of_a_judge_that_repeats_the_annotators_is_whole():
    rows = [
        battle(judge=judge, winner=winner, cluster=level)
        for judge, winner, level in [(FIRST, "a", "level 1"), (SECOND, "b", "level 2"), (TIE, "equal", "level 2")]
    ]
    levels = caption_level_agreement(rows, include_tie=True)
    assert levels["overall"] == {"agreement": 1, "battles": 3, "ties": 1}
    assert levels["level 4"] == {"agreement": None, "battles": 0, "ties": 0}
    assert caption_level_agreement(rows)["level 2"] == {"agreement": 1, "battles": 1, "ties": 0}
    with pytest.raises(ValueError, match="cluster is 'level 9'"):
        caption_level_agreement([battle(winner="a", cluster="level 9")])


def test_people_are_skipped_in_a_ranking_and_an_unknown_model_is_refused():
    assert model_level_agreement(["human", "GPT-4o-0806", "LLaVA-1.5-7B"]) == {"spearman": 1, "kendall": 1}
    with pytest.raises(ValueError, match="ours is not in the ranking"):
        model_level_agreement(["ours", "GPT-4o-0806"])
