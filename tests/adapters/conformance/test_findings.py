"""The verdict on trainers whose fault is known: each takes a missing reward in another way."""

import math

import pytest
import torch

from rubricworks.adapters.conformance import CASES, Batch, Failure, Outcome, check_trainer
from rubricworks.adapters.conformance.cases import number
from rubricworks.errors import UserError
from rubricworks.rl import decoupled_advantages, group_advantages


class Ours:
    """The library's own advantages."""

    package = "rubricworks"
    left_out = Outcome.MASKED

    def advantages(self, batch):
        rewards = self.rewards(batch)
        if batch.aggregation == "decoupled":
            return decoupled_advantages(rewards, [1.0] * rewards.shape[1], batch.group_size).tolist()
        return group_advantages(rewards.sum(dim=1), batch.group_size).tolist()

    def rewards(self, batch):
        values = [[number(cell) for cell in row] for row in batch.rewards_NK]
        return torch.tensor([[math.nan if value is None else value for value in row] for row in values])

    def line(self, batch):
        return ""


class Zeroes(Ours):
    def rewards(self, batch):
        return super().rewards(batch).nan_to_num(nan=0.0)


class Poisons(Ours):
    def advantages(self, batch):
        rewards = self.rewards(batch).sum(dim=1).view(-1, batch.group_size)
        return (
            ((rewards - rewards.mean(dim=1, keepdim=True)) / (rewards.std(dim=1, keepdim=True) + 1e-4))
            .view(-1)
            .tolist()
        )


class Averages(Ours):
    """Puts the group's mean in the place of a missing reward: the deviation of the others shrinks."""

    def rewards(self, batch):
        rewards = super().rewards(batch)
        return torch.where(rewards.isnan(), rewards.nanmean(dim=0), rewards)


class HalfMasked(Ours):
    """Gives an unjudged rollout no advantage, but counts it as 0 in the mean."""

    def advantages(self, batch):
        zeroed = Zeroes().advantages(batch)
        return [value if judged else 0.0 for value, judged in zip(zeroed, batch.judged_N, strict=True)]


def outcomes(trainer):
    return {case.name: check_trainer(trainer, case).outcome for case in CASES}


def test_our_own_advantages_mask_every_unjudged_rollout():
    ours = outcomes(Ours())
    assert {ours.pop("raises"), ours.pop("timeout")} == {Outcome.STOPPED}
    assert set(ours.values()) == {Outcome.MASKED}


@pytest.mark.parametrize(
    ("trainer", "outcome"),
    [(Zeroes, Outcome.ZERO), (Poisons, Outcome.SPREAD), (Averages, Outcome.MOVES), (HalfMasked, Outcome.MOVES)],
)
@pytest.mark.parametrize("case", ["none", "nan"])
def test_each_fault_is_named(trainer, outcome, case):
    finding = check_trainer(trainer(), next(known for known in CASES if known.name == case))
    assert finding.outcome is outcome
    assert not outcome.keeps


def test_a_failure_that_lifts_its_equals_is_seen():
    finding = check_trainer(Zeroes(), next(known for known in CASES if known.name == "equals"))
    assert (finding.outcome, finding.seen) == (Outcome.ZERO, "0.50 0.50 [-1.50] 0.50")  # (1/4, -3/4) / sd 1/2


def test_the_comparison_is_the_group_without_the_unjudged_rollout():
    batch = Batch(((0.2,), (Failure.NONE,), (0.8,), (0.5,)), 4)
    assert batch.judged_only() == Batch(((0.2,), (0.8,), (0.5,)), 3)
    assert batch.with_zeros() == Batch(((0.2,), (0.0,), (0.8,), (0.5,)), 4)


def test_a_group_without_two_judged_rollouts_is_compared_with_nothing():
    by_name = {case.name: case for case in CASES}
    assert by_name["one-left"].batch.judged_only() is None
    assert by_name["one-left"].expected([]) == [0.0] * 4
    assert by_name["none-left"].expected([1.0, 2.0, 3.0, 4.0]) == [0.0] * 4 + [1.0, 2.0, 3.0, 4.0]


def test_groups_that_keep_different_numbers_of_rollouts_are_no_case():
    uneven = Batch(((0.2,), (Failure.NONE,), (0.8,), (0.5,), (0.1,), (0.2,), (0.3,), (0.4,)), 4)
    with pytest.raises(ValueError, match="different numbers"):
        uneven.judged_only()


def test_a_trainer_that_fails_on_complete_rewards_shows_nothing():
    class Broken(Ours):
        def advantages(self, batch):
            raise RuntimeError("no such option")

    with pytest.raises(UserError, match="rubricworks fails on complete rewards, too: RuntimeError: no such option"):
        check_trainer(Broken(), CASES[0])
