import math
from pathlib import Path

import pytest
import synthetic_balcaprl_run as balcaprl
import torch

from rubricworks.methods.balcaprl.advantage_groups import read_groups, reward_groups
from rubricworks.rl import decoupled_advantages, group_advantages

WEIGHTS = balcaprl.WEIGHTS


def test_shown_advantages_are_those_of_the_whole_batch(tmp_path: Path) -> None:
    rows = balcaprl.random_grades(steps=3, samples=4)
    failed = next(place for place, row in enumerate(rows) if row["step"] == 2)
    rows[failed] |= dict.fromkeys(("precision", "recall", "linguistic"))
    balcaprl.write_grades(tmp_path, rows)
    groups = reward_groups(tmp_path, WEIGHTS, seed=0)
    assert {group.group.step for group in groups} == {1, 2, 3}
    for group in groups:
        batch = [row for row in rows if row["step"] == group.group.step]
        places = [place for place, row in enumerate(batch) if row["sample_id"] == group.group.sample_id]
        rewards_NK = balcaprl.paid_rewards(batch)
        decoupled = decoupled_advantages(rewards_NK, WEIGHTS, balcaprl.GROUP)
        grpo = group_advantages(rewards_NK @ torch.tensor(WEIGHTS, dtype=torch.float64), balcaprl.GROUP)
        assert group.decoupled == decoupled[places].tolist()
        assert group.grpo == grpo[places].tolist()
        assert group.group.responses == [batch[place]["response"] for place in places]


def test_rest_of_the_batch_holds_the_moments_of_the_other_groups(tmp_path: Path) -> None:
    rows = balcaprl.random_grades(steps=1, samples=3)
    balcaprl.write_grades(tmp_path, rows)
    (item, *_) = reward_groups(tmp_path, WEIGHTS, seed=0)
    sums = []
    for sample in range(3):
        group = balcaprl.paid_rewards(rows)[sample * balcaprl.GROUP : (sample + 1) * balcaprl.GROUP]
        if f"train-1-{sample}" != item.group.sample_id:
            scores = (group - group.mean(dim=0)) / (group.std(dim=0) + 1e-4)
            sums += (scores * torch.tensor(WEIGHTS)).sum(dim=1).tolist()
    mean = sum(sums) / len(sums)
    assert (item.rest.count, item.rest.telling) == (12, True)
    assert item.rest.mean == pytest.approx(mean, abs=1e-12)
    assert item.rest.squares == pytest.approx(sum((value - mean) ** 2 for value in sums))


def test_group_that_the_methods_order_differently_is_found_by_its_count(tmp_path: Path) -> None:
    """Recall varies a lot and rules the sum; c-GDPO gives precision, which hardly varies, as much of a say."""
    calm = [balcaprl.grade(1, "calm", (0.1 * n, 0.1 * n, 0.5)) for n in range(4)]
    disputed = [
        balcaprl.grade(1, "disputed", (precision, recall, 0.5))
        for precision, recall in ((0.54, 0.0), (0.50, 0.1), (0.51, 0.8), (0.52, 0.9))
    ]
    balcaprl.write_grades(tmp_path, calm + disputed)
    weights = (0.3, 0.3, 0.3)
    groups = {group.group.sample_id: group for group in reward_groups(tmp_path, weights, seed=0)}
    sums = [0.54, 0.60, 1.31, 1.42]
    group = groups["disputed"]
    ordered = sum(
        (sums[b] - sums[a]) * (group.decoupled[b] - group.decoupled[a]) < 0 for a in range(4) for b in range(a + 1, 4)
    )
    assert group.why == "ordered most differently"
    assert (group.reordered, group.pairs) == (ordered, 6)
    assert ordered > 0


def test_groups_come_from_each_third_of_the_training_and_follow_the_seed(tmp_path: Path) -> None:
    balcaprl.write_grades(tmp_path, balcaprl.random_grades(steps=9, samples=4))
    groups = reward_groups(tmp_path, WEIGHTS, seed=0)
    steps = [group.group.step for group in groups if group.why == "drawn"]
    assert {(group.group.step - 1) // 3 for group in groups} == {0, 1, 2}
    assert [group.group.step for group in groups] == sorted(group.group.step for group in groups)
    assert len(groups) <= 6
    assert len(steps) == len(set(steps))
    assert groups == reward_groups(tmp_path, WEIGHTS, seed=0)
    assert any(groups != reward_groups(tmp_path, WEIGHTS, seed=seed) for seed in range(1, 6))


def test_sample_drawn_twice_in_a_step_makes_two_groups() -> None:
    rows = [balcaprl.grade(1, sample, (n / 10, 0.5, 0.5)) for sample in ("twice", "once") for n in range(3)]
    rows += [balcaprl.grade(1, "twice", (n / 10, 0.1, 0.5)) for n in range(3)]
    ((_, groups),) = read_groups(rows)
    assert [(group.sample_id, len(group.rewards)) for group in groups] == [("twice", 3), ("twice", 3), ("once", 3)]
    assert groups[1].rewards[0] == (0.0, 0.1, 0.5)


def test_group_with_fewer_than_three_judged_rollouts_is_not_shown(tmp_path: Path) -> None:
    rows = [balcaprl.grade(1, "a", (0.1 * n, 0.5, 0.5) if n < 2 else None) for n in range(4)]
    balcaprl.write_grades(tmp_path, rows)
    assert reward_groups(tmp_path, WEIGHTS, seed=0) == []


def test_shut_gate_pays_nothing_for_language() -> None:
    ((_, (group,)),) = read_groups([balcaprl.grade(1, "a", (0.2, 0.3, 0.9), gated=gated) for gated in (True, False)])
    assert group.rewards == [(0.2, 0.3, 0.0), (0.2, 0.3, 0.9)]
    assert not any(math.isnan(value) for row in group.rewards if row for value in row)
