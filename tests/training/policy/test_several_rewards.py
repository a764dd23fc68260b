"""Several rewards in the policy trainer: what is recorded is what the policy was trained on, step by step."""

import math

import pytest
import torch
from coloured_squares import policy_rows
from safetensors.torch import load_file
from training_configs import grpo_config

from rubricworks.adapters.trl import GroupReward
from rubricworks.errors import UserError
from rubricworks.grading.boxed import BoxedGrader, answer_rubric
from rubricworks.rl import decoupled_advantages, group_advantages
from rubricworks.training.generate import load_model
from rubricworks.training.policy.grpo import train_policy

pytestmark = pytest.mark.slow

GROUP = 4
SHAPE = {"group_size": GROUP, "prompts_per_step": 2, "max_new_tokens": 8, "learning_rate": 1e-3, "log_every": 1}
ROWS = [{**{k: v for k, v in row.items() if k != "rubric"}, "reference": row["rubric"]} for row in policy_rows()]


def texts(completions):
    return [completion[0]["content"] for completion in completions]


def test_reward_with_a_cap_learns_the_end_tokens_of_the_model(student, tmp_path):
    reward = GroupReward(BoxedGrader(), group_size=GROUP, max_tokens=8)
    rubric = answer_rubric("2").model_dump_json()
    rows = [{**row, "rubric": rubric} for row in policy_rows()]
    train_policy(student, rows, reward, tmp_path, grpo_config(steps=1, **SHAPE))
    model, processor = load_model(student)
    assert set(reward.end_ids) == {processor.tokenizer.eos_token_id, model.generation_config.eos_token_id}


async def early(completions, **columns):
    """Unjudged where the other one is not, so that a row misses one of its rewards."""
    return [None if row == 5 else len(set(text.split())) / 7 for row, text in enumerate(texts(completions))]


async def colour(completions, **columns):
    return [None if row == 2 else text.count("red") / 3 + row / 10 for row, text in enumerate(texts(completions))]


def trained(student, folder, rewards, *, penalty=None, weights=None, **options):
    steps = []
    config = grpo_config(**{"steps": 3, **SHAPE, **options})
    result = train_policy(
        student,
        ROWS,
        rewards,
        folder,
        config,
        weights=weights,
        reads="reference",
        penalty=penalty,
        on_step=steps.append,
    )
    return steps, load_file(result.model_dir / "model.safetensors")


def table(step):
    """The recorded components, a column each, NaN where missing."""
    columns = [[math.nan if value is None else value for value in values] for values in step.components.values()]
    return torch.tensor(columns).T


@pytest.mark.parametrize("rows_per_pass", [None, 4])
def test_recorded_components_give_the_advantages_of_every_step(student, tmp_path, rows_per_pass):
    weights = (0.1, 0.6)
    options = {"advantages": "c-gdpo", "rows_per_pass": rows_per_pass}
    steps, _ = trained(student, tmp_path, [early, colour], weights=weights, **options)
    assert [step.step for step in steps] == [1, 2, 3]
    for step in steps:
        assert list(step.components) == ["early", "colour"]
        assert step.components["early"][5] is None is step.components["colour"][2]
        assert step.components["early"][2] is not None
        assert torch.tensor(step.advantages).equal(decoupled_advantages(table(step), weights, GROUP))
        assert step.advantages[2] == step.advantages[5] == 0
        sums = (table(step).double() @ torch.tensor(weights, dtype=torch.float64)).tolist()
        assert step.rewards == [None if math.isnan(item) else pytest.approx(item) for item in sums]
        assert max(map(abs, step.advantages)) > 0.5


@pytest.mark.parametrize(("option", "scale"), [("group", "group"), ("batch", "batch"), ("centred", "none")])
def test_summed_rewards_are_normalised_as_one_and_masked_if_one_is_missing(student, tmp_path, option, scale):
    weights = (0.3, 0.7)
    steps, _ = trained(student, tmp_path, [early, colour], weights=weights, advantages=option)
    for step in steps:
        expected = group_advantages(table(step) @ torch.tensor(weights), GROUP, scale=scale)
        assert step.advantages == pytest.approx(expected.tolist(), abs=1e-5)
        assert step.advantages[2] == step.advantages[5] == 0


def test_where_nothing_tells_the_rollouts_apart_nothing_is_learnt(student, tmp_path):
    """The two rewards cancel but for rounding errors, or are the same for all; TRL would scale the errors up to 1."""

    async def one(completions, **columns):
        return [0.1 * (row + 1) for row in range(len(completions))]

    async def other(completions, **columns):
        return [1 - 0.1 * (row + 1) for row in range(len(completions))]

    async def same(completions, **columns):
        return [0.3] * len(completions)

    untouched = load_file(student / "model.safetensors")
    for name, rewards in {"cancel": [one, other], "constant": [same, same]}.items():
        steps, weights = trained(student, tmp_path / name, rewards, advantages="c-gdpo")
        assert [step.advantages for step in steps] == [[0.0] * 8] * 3
        assert all(weights[key].equal(tensor) for key, tensor in untouched.items() if key in weights)
    _, weights = trained(student, tmp_path / "telling", [one, same], advantages="c-gdpo")
    assert not all(weights[key].equal(tensor) for key, tensor in untouched.items() if key in weights)


def test_penalty_lowers_advantages_of_judged_rollouts_and_reaches_weights(student, tmp_path):
    calls = []

    def penalty(prompts, completions, completion_ids, reference, sample_id, **columns):
        calls.append((sample_id, texts(completions), [len(ids) for ids in completion_ids]))
        return [0.25 * row for row in range(len(completions))]

    async def same(completions, **columns):
        return [None if row == 6 else 0.3 for row in range(len(completions))]

    for name, objective in {"decoupled": "c-gdpo", "added": "group"}.items():
        calls.clear()
        steps, weights = trained(student, tmp_path / name, [same, same], penalty=penalty, advantages=objective)
        expected = [0.0 if row == 6 else -0.25 * row for row in range(8)]
        for step, (sample_ids, responses, tokens) in zip(steps, calls, strict=True):
            assert step.advantages == pytest.approx(expected, abs=1e-3)
            assert (step.sample_ids, step.responses, step.tokens) == (sample_ids, responses, tokens)
        untouched = load_file(student / "model.safetensors")
        assert not all(weights[key].equal(tensor) for key, tensor in untouched.items() if key in weights)


def test_token_mean_of_groups_keeps_the_recorded_advantages(student, tmp_path):
    options = {"advantages": "c-gdpo", "loss": "group_token_mean"}
    steps, _ = trained(student, tmp_path, [early, colour], **options)
    for step in steps:
        assert torch.tensor(step.advantages).equal(decoupled_advantages(table(step), (1, 1), GROUP))


def test_one_reward_is_recorded_as_the_only_component(student, tmp_path):
    steps, _ = trained(student, tmp_path, colour)
    for step in steps:
        assert step.components == {"colour": step.rewards}


def test_the_image_comes_decoded_and_as_it_was_given(student, tmp_path):
    observed_values = {}

    async def looks(completions, image, image_bytes, sample_id, **columns):
        observed_values.update(zip(sample_id, zip(image, image_bytes, strict=True), strict=True))
        return [float(row) for row in range(len(completions))]

    trained(student, tmp_path, looks, steps=1)
    images = {row["sample_id"]: row["image"] for row in ROWS}
    assert observed_values
    for name, (image, encoded) in observed_values.items():
        assert encoded == images[name]
        assert image.size == (32, 32)


def test_impossible_combinations_are_refused_before_any_model_is_loaded(tmp_path):
    with pytest.raises(UserError, match="3 weights for 2 reward functions"):
        train_policy("none", ROWS, [early, colour], tmp_path, grpo_config(), weights=(1, 1, 1), reads="reference")
    with pytest.raises(UserError, match="no column exam"):
        train_policy("none", ROWS, [early], tmp_path, grpo_config(), reads="exam")
