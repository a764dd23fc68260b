"""Rollouts that a step trains on: which are kept, what they carry, and that the trainer's loss sees them alone."""

import random
import statistics

import pytest
import torch
from coloured_squares import policy_rows, squares
from pydantic import ValidationError
from training_configs import grpo_config, sft_config

from rubricworks.rl import group_advantages
from rubricworks.training.config import SelectionOptions
from rubricworks.training.policy.grpo import train_policy
from rubricworks.training.policy.rollouts import PolicyTrainer
from rubricworks.training.policy.selection import keep_rows, select_rows
from rubricworks.training.sft import train_sft

pytestmark = pytest.mark.slow


def test_kept_rows_are_the_best_and_random_others_of_each_group_in_their_order():
    rewards = [0.1, 0.9, 0.5, 0.7, 0.2, None, 0.3, 0.8]
    options = SelectionOptions(keep=2, top=1)
    kinds = set()
    for step in range(40):
        rows = select_rows(rewards, 4, options, seed=3, step=step)
        assert rows == sorted(rows)
        assert {1, 7} <= set(rows)
        assert sum(row < 4 for row in rows) == sum(row >= 4 for row in rows) == 2
        assert 5 not in rows  # not judged, and enough others are
        kinds.add(tuple(rows))
    assert len(kinds) > 3
    assert select_rows(rewards, 4, options, seed=3, step=1) == select_rows(rewards, 4, options, seed=3, step=1)


def test_rows_of_a_batch_keep_their_own_pixels():
    grids = torch.tensor([[1, 2, 2], [1, 1, 3], [1, 4, 1]])
    pixels = torch.cat([torch.full((4, 5), 0.0), torch.full((3, 5), 1.0), torch.full((4, 5), 2.0)])
    batch = {
        "prompt_ids": torch.arange(6).view(3, 2),
        "advantages": torch.tensor([0.0, 1.0, 2.0]),
        "num_items_in_batch": torch.tensor(7),
        "num_images": [1, 1, 1],
        "pixel_values": pixels,
        "image_grid_thw": grids,
        "old_per_token_logps": None,
    }
    row = keep_rows(batch, [0, 2], 3)
    assert row["prompt_ids"].tolist() == [[0, 1], [4, 5]]
    assert row["advantages"].tolist() == [0, 2]
    assert row["pixel_values"][:, 0].tolist() == [0.0] * 4 + [2.0] * 4
    assert row["image_grid_thw"].tolist() == [[1, 2, 2], [1, 4, 1]]
    assert row["num_images"] == [1, 1]
    assert row["old_per_token_logps"] is None


def test_several_images_of_a_row_stay_together():
    batch = {
        "prompt_ids": torch.zeros(2, 1),
        "num_images": [2, 1],
        "pixel_values": torch.arange(6.0).view(6, 1),
        "image_grid_thw": torch.tensor([[1, 1, 1], [1, 1, 2], [1, 1, 3]]),
    }
    row = keep_rows(batch, [0], 2)
    assert row["pixel_values"][:, 0].tolist() == [0, 1, 2]
    assert row["image_grid_thw"].tolist() == [[1, 1, 1], [1, 1, 2]]


@pytest.fixture(scope="module")
def warmed(student, tmp_path_factory):
    config = sft_config(steps=20, batch_size=12, learning_rate=1e-2, save_every=1000)
    return train_sft(student, squares(), tmp_path_factory.mktemp("warm"), config)


async def drawn(prompts, completions, **columns):
    """A different reward for every rollout, the same in every run."""
    return [random.Random(f"{at} {completion[0]['content']}").random() for at, completion in enumerate(completions)]


FEW = {"group_size": 4, "prompts_per_step": 2, "max_new_tokens": 8, "log_every": 1, "steps": 2}


@pytest.mark.parametrize("rows_per_pass", [None, 4])
@pytest.mark.parametrize("normalise", ["kept", "all"])
def test_a_step_trains_on_the_kept_rollouts_with_their_advantages(
    warmed, tmp_path, monkeypatch, normalise, rows_per_pass
):
    steps, losses = [], []
    compute = PolicyTrainer._compute_loss

    def record(self, model, inputs):
        losses.append(inputs["advantages"].tolist())
        assert len({inputs[name].shape[0] for name in ("prompt_ids", "completion_ids", "advantages")}) == 1
        return compute(self, model, inputs)

    monkeypatch.setattr(PolicyTrainer, "_compute_loss", record)
    selection = SelectionOptions(keep=2, top=1, normalise=normalise)
    config = grpo_config(selection=selection, rows_per_pass=rows_per_pass, **FEW)
    train_policy(warmed, policy_rows(), drawn, tmp_path, config, on_step=steps.append)
    passes = 1 if rows_per_pass is None else 2
    for at, step in enumerate(steps):
        assert len(step.rewards) == 8  # all are logged
        rows = [row for row, advantage in enumerate(step.advantages) if advantage is not None]
        assert [row // 4 for row in rows] == [0, 0, 1, 1]
        assert {max(range(4 * group, 4 * group + 4), key=step.rewards.__getitem__) for group in (0, 1)} <= set(rows)
        expected = group_advantages(torch.tensor([step.rewards[row] for row in rows]), 2)
        if normalise == "all":
            expected = group_advantages(torch.tensor(step.rewards), 4)[rows]
        assert [step.advantages[row] for row in rows] == pytest.approx(expected.tolist(), abs=1e-4)
        trained = [value for loss in losses[at * passes : (at + 1) * passes] for value in loss]
        assert len(losses[at * passes]) == 4 // passes
        assert sorted(trained) == pytest.approx(sorted(step.advantages[row] for row in rows))


def test_keeping_every_rollout_is_training_without_selection(warmed, tmp_path):
    whole = train_policy(warmed, policy_rows(), drawn, tmp_path / "a", grpo_config(**FEW))
    config = grpo_config(selection=SelectionOptions(keep=4), **FEW)
    selected = train_policy(warmed, policy_rows(), drawn, tmp_path / "b", config)
    assert [item.reward for item in whole.history] == pytest.approx([item.reward for item in selected.history])
    from safetensors.torch import load_file

    first, second = (load_file(result.model_dir / "model.safetensors") for result in (whole, selected))
    assert max(float((first[name] - second[name]).abs().max()) for name in first) < 1e-5


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"group_size": 4, "selection": {"keep": 5}}, "of group_size 4 at most all"),
        ({"selection": {"keep": 2, "top": 3}}, "at most keep, 2"),
        ({"selection": {"keep": 1}}, "greater than or equal to 2"),
        (
            {"group_size": 4, "prompts_per_step": 3, "rows_per_pass": 3, "selection": {"keep": 2}},
            "4 passes of a step, which do not share its 6 kept rollouts",
        ),
        ({"group_size": 1}, "at least 2 rollouts"),
    ],
)
def test_a_selection_that_cannot_be_is_refused(fields, message):
    with pytest.raises(ValidationError, match=message):
        grpo_config(**fields)


def test_statistics_of_all_rollouts_reach_the_alarm(warmed, tmp_path):
    steps = []
    config = grpo_config(selection=SelectionOptions(keep=2), **FEW)
    result = train_policy(warmed, policy_rows(), drawn, tmp_path, config, on_step=steps.append)
    assert [item.reward for item in result.history] == pytest.approx([statistics.fmean(step.rewards) for step in steps])
