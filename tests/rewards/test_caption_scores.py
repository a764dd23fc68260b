"""Precision, recall and linguistic score of a judge's assertions, against counting by hand and exact fractions."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.metrics import b_capscore
from rubricworks.rewards import CaptionScores, caption_scores
from rubricworks.rubrics import CaptionAssertions


def judged(verified, covered, ratings=(10, 10, 10)):
    clarity, fluency, coherency = ratings
    return CaptionAssertions.model_validate(
        {
            "synthetic_features": {
                "atomic_assertions": [{"text": f"claim {n}", "is_verified": mark} for n, mark in enumerate(verified)],
                "clarity_score": clarity,
                "fluency_score": fluency,
                "coherency_score": coherency,
                "linguistic_scores_explanation": "",
            },
            "gt_features": {
                "atomic_assertions": [{"text": f"claim {n}", "is_covered": mark} for n, mark in enumerate(covered)]
            },
        }
    )


def test_shares_of_claims_and_the_mean_rating_brought_to_0_and_1():
    scores = caption_scores(judged([True, True, False, True], [True, False], (10, 1, 7)))
    assert scores == CaptionScores(precision=0.75, recall=0.5, linguistic=pytest.approx((9 + 0 + 6) / 27))


@pytest.mark.parametrize(("ratings", "linguistic"), [((1, 1, 1), 0.0), ((10, 10, 10), 1.0)])
def test_the_worst_ratings_give_0_and_the_best_1(ratings, linguistic):
    assert caption_scores(judged([True], [True], ratings)).linguistic == linguistic


def test_where_nothing_was_listed_there_is_no_share_and_never_a_0():
    assert caption_scores(judged([], [True])) == (None, 1.0, 1.0)
    assert caption_scores(judged([False], [])) == (0.0, None, 1.0)
    assert caption_scores(judged([], []))[:2] == (None, None)


def test_a_claim_that_is_listed_twice_counts_twice():
    doubled = judged([True, False], [True]).model_dump()
    claims = doubled["synthetic_features"]["atomic_assertions"]
    doubled["synthetic_features"]["atomic_assertions"] = [claims[0], *claims]
    assert caption_scores(CaptionAssertions.model_validate(doubled)).precision == pytest.approx(2 / 3)


MARKS = st.lists(st.booleans(), min_size=1, max_size=30)
RATINGS = st.tuples(*[st.integers(1, 10)] * 3)


@given(MARKS, MARKS, RATINGS)
def test_any_answer_agrees_with_exact_fractions_and_feeds_b_capscore(verified, covered, ratings):
    scores = caption_scores(judged(verified, covered, ratings))
    assert scores.precision == float(Fraction(verified.count(True), len(verified)))
    assert scores.recall == float(Fraction(covered.count(True), len(covered)))
    assert scores.linguistic == pytest.approx(float(sum(Fraction(rating - 1, 9) for rating in ratings) / 3))
    assert min(scores) - 1e-9 <= b_capscore(*scores) <= max(scores) + 1e-9
