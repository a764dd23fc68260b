"""DCScore by hand, its bounds, and what it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.metrics import StatedFact, dc_score, mean_dc_score


def fact(is_true: bool = True, reference: int | None = None, relevant: bool = True) -> StatedFact:
    return StatedFact(fact="f", relevant=relevant, is_true=is_true, reference=reference)


def test_true_facts_beyond_the_reference_are_told_and_to_be_told():
    every = dc_score([fact(reference=0), fact(), fact(False)], [True, True]).every
    assert (every.precision, every.recall, every.facts) == (pytest.approx(2 / 3), pytest.approx(2 / 3), 3)
    assert every.f1 == pytest.approx(2 / 3)


def test_saying_the_same_twice_earns_no_more_recall():
    once = dc_score([fact(reference=0)], [True, True])
    assert dc_score([fact(reference=0)] * 3, [True, True]).every.recall == pytest.approx(once.every.recall) == 0.5


def test_caption_of_commentary_alone_has_no_relevant_score_and_half_a_score_at_most():
    score = dc_score([fact(relevant=False)], [True])
    assert score.relevant == (0, 0, 0, 1)
    assert score.score == pytest.approx(score.every.f1 / 2)


def test_commentary_of_the_reference_need_not_be_told():
    score = dc_score([fact(reference=0)], [True, False])
    assert (score.every.recall, score.relevant.recall) == (0.5, 1)


stated_facts = st.lists(
    st.builds(fact, st.booleans(), st.none() | st.integers(0, 3), st.booleans()), min_size=1, max_size=12
)


@given(stated_facts)
def test_all_facts_score_between_zero_and_one(stated):
    every = dc_score(stated, [True] * 4).every
    assert all(0 <= value <= 1 + 1e-9 for value in every[:3])
    assert every.f1 <= max(every.precision, every.recall)


def test_mean_is_in_percent():
    whole, nothing = dc_score([fact(reference=0)], [True]), dc_score([fact(False)], [True])
    assert mean_dc_score([whole, nothing]) == pytest.approx(50, abs=1e-4)
    with pytest.raises(ValueError, match="no caption has a score"):
        mean_dc_score([])


@pytest.mark.parametrize(("stated", "reference"), [([], [True]), ([fact()], []), ([fact(reference=1)], [True])])
def test_nothing_to_share_or_match_is_refused(stated, reference):
    with pytest.raises(ValueError, match=r"each needs one|matches fact 1 of 1"):
        dc_score(stated, reference)
