"""Policies without a student: what a rating that can be flattered teaches, and what a rubric does."""

from statistics import fmean

import pytest

from rubricworks.claims.behavioural_policy import measured_policy


@pytest.mark.slow
def test_flattered_rating_teaches_praise_and_a_rubric_the_truth():
    rubric, likert = (measured_policy(f"behavioural_{name}", 101) for name in ("rubric", "likert"))
    assert rubric["praise"].keys() == likert["praise"].keys() == rubric["oracle_f1"].keys()
    assert fmean(likert["praise"].values()) > 0.9
    assert fmean(rubric["praise"].values()) < 0.2
    assert fmean(rubric["oracle_f1"].values()) > fmean(likert["oracle_f1"].values()) + 0.1
    assert measured_policy("behavioural_rubric", 101) == rubric
