"""Rewards corrected for a judge's errors: unbiased, blind to one pair of rates, and what 15 % errors do."""

import random
from statistics import correlation, fmean

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from planted_rubrics import planted_rubrics

from rubricworks.rewards import NoiseRates, corrected_credit, noise_corrected_reward, weighted_reward
from rubricworks.rl import group_advantages
from rubricworks.world.scene.rules import holds, parse_rule

UNEVEN = {
    3: NoiseRates(false_positive=0.05, false_negative=0.05),
    2: NoiseRates(false_positive=0.12, false_negative=0.12),
    1: NoiseRates(false_positive=0.3, false_negative=0.3),
}


def judged(truth, weights, rates, generator):
    """Credits of a judge with these error rates, by weight."""
    return [
        float(y != (generator.random() < (rates[w].false_negative if y else rates[w].false_positive)))
        for y, w in zip(truth, weights, strict=True)
    ]


@given(st.floats(0, 0.45), st.floats(0, 0.45))
def test_the_expectation_of_a_corrected_credit_is_the_true_one(false_positive, false_negative):
    rates = NoiseRates(false_positive=false_positive, false_negative=false_negative)
    met, zero = corrected_credit(1, rates), corrected_credit(0, rates)
    assert (1 - false_negative) * met + false_negative * zero == pytest.approx(1)
    assert false_positive * met + (1 - false_positive) * zero == pytest.approx(0, abs=1e-12)


def test_without_errors_the_reward_is_as_it_is():
    rates = NoiseRates(false_positive=0, false_negative=0)
    assert noise_corrected_reward([1, 0, 1], [3, 2, 1], rates) == weighted_reward([1, 0, 1], [3, 2, 1])


def test_what_could_not_be_judged_is_no_number():
    assert noise_corrected_reward([1, None], [3, 1], UNEVEN) is None


def test_rates_that_say_nothing_are_refused():
    with pytest.raises(ValueError, match="add up to 1 or more"):
        NoiseRates(false_positive=0.6, false_negative=0.5)
    with pytest.raises(ValueError, match=r"no error rates for the weight 4; there are 1, 2, 3"):
        noise_corrected_reward([1], [4], UNEVEN)


def test_one_pair_of_rates_moves_no_normalised_advantage():
    rates, generator = NoiseRates(false_positive=0.15, false_negative=0.15), random.Random(0)
    credits = [[float(generator.random() < 0.5) for _ in range(9)] for _ in range(16)]
    weights = [3, 3, 2, 2, 2, 1, 1, 1, 1]
    plain = torch.tensor([weighted_reward(credit, weights) for credit in credits])
    corrected = torch.tensor([noise_corrected_reward(credit, weights, rates) for credit in credits])
    assert not torch.allclose(plain, corrected)
    torch.testing.assert_close(
        group_advantages(plain, 8, eps=0.0), group_advantages(corrected, 8, eps=0.0), rtol=1e-4, atol=1e-5
    )


def effect(seed, *, draws, scenes=60):
    """Correlation with the true rewards, within scenes: plain and corrected, of the mean over so many verdicts."""
    generator, plain, corrected = random.Random(seed), [], []
    for rubric in planted_rubrics(scenes, seed=seed, clean=1.0):
        criteria = rubric.entry.rubric.criteria
        weights = [int(criterion.weight) for criterion in criteria]
        truths = [[holds(parse_rule(c.evaluation_rule), text) for c in criteria] for text in rubric.captions]
        exact = [weighted_reward([float(y) for y in truth], weights) for truth in truths]
        if len(set(exact)) < 2:
            continue
        means = []
        for reduce in (weighted_reward, lambda credits, w: noise_corrected_reward(credits, w, UNEVEN)):
            means.append(
                [
                    fmean(reduce(judged(truth, weights, UNEVEN, generator), weights) for _ in range(draws))
                    for truth in truths
                ]
            )
        for measured, into in zip(means, (plain, corrected), strict=True):
            if len(set(measured)) > 1:
                into.append(correlation(exact, measured))
    return fmean(plain), fmean(corrected)


def test_rates_by_weight_mend_what_is_rewarded_and_make_each_reward_noisier():
    """Scene world, a judge with 15 % errors on average, most of them on minor criteria (simulated)."""
    plain, corrected = effect(11, draws=100, scenes=30)
    assert corrected > plain
    assert corrected > 0.99
    plain_once, corrected_once = effect(11, draws=1)
    assert corrected_once < plain_once  # the correction magnifies the noisiest criteria
