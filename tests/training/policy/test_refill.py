"""Prompts whose rollouts all pass or all fail give way to others, and what is missing is not trained on."""

import random

import pytest
import torch
from coloured_squares import policy_rows
from safetensors.torch import load_file
from training_configs import grpo_config

from rubricworks.adapters.trl import RubricReward
from rubricworks.errors import UserError
from rubricworks.rl import decoupled_advantages, group_advantages
from rubricworks.rubrics import Criterion, Rubric, Scorecard, Verdict
from rubricworks.training.config import RefillOptions, SelectionOptions
from rubricworks.training.policy.grpo import train_policy
from rubricworks.training.policy.refill import has_signal, other_prompts, split_groups
from rubricworks.training.policy.rollouts import PolicyTrainer

pytestmark = pytest.mark.slow

FEW = {"group_size": 4, "prompts_per_step": 2, "max_new_tokens": 8, "log_every": 1, "steps": 2}
REFILL = RefillOptions(rounds=3)


@pytest.mark.parametrize(
    ("rewards", "passes", "expected"),
    [
        ([1.0, 1.0, 1.0], None, False),
        ([0.0, 0.0, None], None, False),
        ([0.0, 1.0], None, True),
        ([0.6, 0.7], None, True),  # neither right nor wrong: DAPO drops accuracy 0 and 1 alone
        ([0.5, 0.5, 0.5, 0.5], None, False),
        ([0.5, None, None, None], None, False),
        ([0.1 + 0.2, 0.3], None, False),
        ([None, None], None, False),
        ([0.2, 0.7], [False, False], False),
        ([0.5, 0.5], [True, False], True),
        ([0.2, 0.7], [None, None], True),  # no such criterion in this rubric
        ([0.2, 0.7], [None, True], False),
    ],
)
def test_a_group_has_a_signal_if_some_pass_and_some_fail(rewards, passes, expected):
    assert has_signal(rewards, passes) is expected


@pytest.mark.parametrize("rewards", [[0.5] * 4, [0.5, None, None, None], [1.0] * 4, [0.0, 0.0, None, 0.0]])
def test_a_group_without_advantages_has_no_signal(rewards):
    values = torch.tensor([float("nan") if reward is None else reward for reward in rewards])
    assert group_advantages(values, 4).tolist() == [0.0] * 4
    assert not has_signal(rewards, None)


def test_separately_normalised_rewards_give_a_signal_at_equal_sums():
    """c-gdpo: the sums by weight are all 0.2, and three advantages are not 0."""
    rewards = torch.tensor([[2.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [1.0, 0.1, 0.2333333]])
    weights = torch.tensor([0.1, 0.3, 0.3])
    rewards[3, 2] = (0.2 - (rewards[3, :2] * weights[:2]).sum()) / weights[2]
    assert (rewards * weights).sum(dim=1).tolist() == pytest.approx([0.2] * 4)
    assert decoupled_advantages(rewards, weights, 4).abs().max() > 1
    for columns, expected in (([(rewards * weights).sum(dim=1)], False), (list(rewards.T), True)):
        (group,) = split_groups(
            [{}] * 4, (None,), rewards, None, 4, first=0, rewards_of=lambda _, c=columns: [item.tolist() for item in c]
        )
        assert group.has_signal is expected


def test_other_prompts_are_the_unused_ones_in_an_order_of_the_step():
    first, second = (other_prompts(30, {3, 4}, seed=1, step=step) for step in (1, 2))
    assert sorted(first) == sorted(second) == [at for at in range(30) if at not in (3, 4)]
    assert first != second
    assert first == other_prompts(30, {4, 3}, seed=1, step=1)


def reward_on(good):
    """A reward that differs within the groups of these samples, and is 0 for all others."""

    async def reward(prompts, completions, sample_id, **columns):
        rng = random.Random("".join(completion[0]["content"] for completion in completions))
        return [rng.choice([0.2, 0.9]) if name in good else 0.0 for name in sample_id]

    return reward


@pytest.fixture
def losses(monkeypatch):
    seen = []
    compute = PolicyTrainer._compute_loss

    def record(self, model, inputs):
        seen.append((inputs["advantages"].tolist(), inputs["completion_mask"].sum(dim=1).tolist()))
        return compute(self, model, inputs)

    monkeypatch.setattr(PolicyTrainer, "_compute_loss", record)
    return seen


def groups_of(step, size=4):
    return [
        (step.sample_ids[at], step.rewards[at : at + size], step.advantages[at : at + size])
        for at in range(0, len(step.sample_ids), size)
    ]


def test_a_step_trains_on_the_groups_with_a_signal_that_it_draws(student, tmp_path, losses):
    steps = []
    good = {f"s{at}" for at in range(0, 12, 2)}
    config = grpo_config(refill=RefillOptions(rounds=12), **FEW)
    train_policy(student, policy_rows(), reward_on(good), tmp_path, config, on_step=steps.append)
    assert any(len(step.sample_ids) > 8 for step in steps)
    for step, (advantages, _) in zip(steps, losses, strict=True):
        names = [name for name, _, _ in groups_of(step)]
        assert len(names) == len(set(names))  # no prompt is drawn twice
        trained = [(rewards, stored) for _, rewards, stored in groups_of(step) if stored[0] is not None]
        assert len(trained) == 2
        assert all(any(rewards) for rewards, _ in trained)
        for rewards, stored in trained:
            assert stored == pytest.approx(group_advantages(torch.tensor(rewards), 4).tolist(), abs=1e-4)
        assert sorted(advantages) == pytest.approx(sorted(value for _, stored in trained for value in stored))


@pytest.mark.parametrize("rows_per_pass", [None, 4])
def test_what_cannot_be_refilled_trains_on_fewer_groups_and_is_said(student, tmp_path, losses, caplog, rows_per_pass):
    steps = []
    config = grpo_config(
        refill=RefillOptions(rounds=12), selection=SelectionOptions(keep=2), rows_per_pass=rows_per_pass, **FEW
    )
    train_policy(student, policy_rows(), reward_on({"s5"}), tmp_path, config, on_step=steps.append)
    assert "it trains on fewer" in caplog.text
    passes = 1 if rows_per_pass is None else 2
    for at, step in enumerate(steps):
        trained = [name for name, _, stored in groups_of(step) if any(item is not None for item in stored)]
        assert trained in (["s5"], [])
        batches = losses[at * passes : (at + 1) * passes]
        counted = [value for advantages, tokens in batches for value, n in zip(advantages, tokens, strict=True) if n]
        expected = [item for _, _, stored in groups_of(step) for item in stored if item is not None]
        assert sorted(counted) == pytest.approx(sorted(expected))


def test_no_prompt_left_is_one_line(student, tmp_path):
    with pytest.raises(UserError, match="no prompt is left: in the last 2 steps"):
        train_policy(student, policy_rows(), reward_on(set()), tmp_path, grpo_config(refill=REFILL, **FEW))


def test_rewards_that_never_differ_are_said(student, tmp_path, caplog):
    steps = []
    train_policy(student, policy_rows(), reward_on(set()), tmp_path, grpo_config(**FEW), on_step=steps.append)
    assert "all rollouts of every prompt earned the same reward: advantage 0" in caplog.text
    assert {advantage for step in steps for advantage in step.advantages} == {0.0}


def test_refill_that_drops_nothing_is_training_without(student, tmp_path):
    configs = [grpo_config(**FEW), grpo_config(refill=REFILL, **FEW)]

    async def reward(prompts, completions, **columns):
        return [0.25 + 0.5 * (at % 2) for at, _ in enumerate(completions)]

    results = [
        train_policy(student, policy_rows(), reward, tmp_path / str(at), config) for at, config in enumerate(configs)
    ]
    first, second = (load_file(result.model_dir / "model.safetensors") for result in results)
    assert max(float((first[name] - second[name]).abs().max()) for name in first) < 1e-6


def test_a_killed_training_draws_the_same_prompts(student, tmp_path):
    config = grpo_config(refill=REFILL, **{**FEW, "save_every": 1})
    reward = reward_on({"s1", "s4", "s7", "s8"})

    class Killed(Exception):
        pass

    def kill(step):
        if step.step == 2:
            raise Killed

    whole = train_policy(student, policy_rows(), reward, tmp_path / "whole", config)
    with pytest.raises(Killed):
        train_policy(student, policy_rows(), reward, tmp_path / "killed", config, on_step=kill)
    resumed = train_policy(student, policy_rows(), reward, tmp_path / "killed", config)
    first, second = (load_file(result.model_dir / "model.safetensors") for result in (whole, resumed))
    assert all(first[name].equal(second[name]) for name in first)


def test_a_criterion_that_no_reward_reports_is_refused_before_the_first_step(student, tmp_path):
    config = grpo_config(refill=RefillOptions(criterion="object_count"), **FEW)
    with pytest.raises(
        UserError, match=r"policy\.algorithm\.refill\.criterion object_count: this reward does not report"
    ):
        train_policy(student, policy_rows(), reward_on(set()), tmp_path, config)


class CountsSquares:
    """Grader that marks the count right in every second response, and everything else always."""

    exposure = "text"

    def __init__(self):
        self.asked = 0

    async def grade(self, sample, response, rubric):
        self.asked += 1
        credits = [float(self.asked % 2) if criterion.key == "object_count" else 1.0 for criterion in rubric.criteria]
        if sample.sample_id in ("s0", "s1"):
            credits = [1.0] * len(credits)
        pairs = zip(rubric.criteria, credits, strict=True)
        return Scorecard(
            sample_id=sample.sample_id, response=response, judge="counts",
            verdicts=[Verdict(criterion=item.criterion, credit=credit) for item, credit in pairs],
        )  # fmt: skip


def test_captions_are_dropped_by_a_named_criterion(student, tmp_path):
    rubric = Rubric(
        criteria=[
            Criterion(criterion="Counts the squares", key="object_count", weight=1),
            Criterion(criterion="Names a colour", key="attribute", weight=1),
        ]
    ).model_dump_json()
    rows = [{**row, "rubric": rubric} for row in policy_rows()[:4]]
    steps = []
    config = grpo_config(refill=RefillOptions(criterion="object_count"), **{**FEW, "steps": 3})
    reward = RubricReward(CountsSquares(), criterion="object_count")
    train_policy(student, rows, reward, tmp_path, config, on_step=steps.append)
    for step in steps:
        for name, _, stored in groups_of(step):
            assert (stored[0] is None) == (name in ("s0", "s1"))
        assert sum(stored[0] is not None for _, _, stored in groups_of(step)) == 2
