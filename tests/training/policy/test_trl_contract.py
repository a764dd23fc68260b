"""TRL's behaviour that the trainer depends on, partly private: a change must fail here, not at step 900."""

import inspect
import math

import pytest
import torch
from coloured_squares import policy_rows
from datasets import Dataset
from transformers import Trainer
from trl import GRPOConfig, GRPOTrainer

from rubricworks.adapters.trl import GroupReward, RubricReward
from rubricworks.rl import decoupled_advantages, group_advantages
from rubricworks.rubrics import Criterion, Response, Rubric, Scorecard, Verdict
from rubricworks.training.generate import decode_image, load_model


class Recorded(GRPOTrainer):
    """Keeps what the two wrapped methods were given and gave."""

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        self.scored = (inputs, prompts, completions, completion_ids_list, rewards.clone())
        return rewards

    def _generate_and_score_completions(self, inputs):
        self.output = super()._generate_and_score_completions(inputs)
        return dict(self.output)


def one_step(student, tmp_path, rewards, *, kind=Recorded, rubric=None, **options):
    model, processor = load_model(student, dtype="float32")
    rows = [
        {
            "sample_id": row["sample_id"],
            "rubric": rubric or row["rubric"],
            "image": decode_image(row["image"]),
            "prompt": [{"role": "user", "content": row["prompt"]}],
        }
        for row in policy_rows()
    ]
    arguments = GRPOConfig(
        output_dir=str(tmp_path),
        max_steps=1,
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=6,
        beta=0.0,
        bf16=False,
        activation_checkpointing=False,
        save_strategy="no",
        dataloader_pin_memory=False,
        disable_tqdm=True,
        report_to="none",
        **options,
    )
    trainer = kind(
        model=model,
        reward_funcs=rewards,
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=processor,
    )
    trainer.train()
    return trainer


VALUES = [0.1, None, 0.7, 0.4, None, None, None, None]


async def some_unjudged(prompts, completions, sample_id, rubric, **columns):
    some_unjudged.seen = {"sample_id": sample_id, "rubric": rubric, **columns}
    return VALUES


def test_async_reward_gets_dataset_columns_and_conversational_completions(student, tmp_path):
    trainer = one_step(student, tmp_path, [some_unjudged])
    calls = some_unjudged.seen
    by_id = {row["sample_id"]: row["rubric"] for row in policy_rows()}
    assert len(calls["sample_id"]) == 8
    assert [by_id[sample_id] for sample_id in calls["sample_id"]] == calls["rubric"]
    assert len(set(calls["sample_id"][:4])) == len(set(calls["sample_id"][4:])) == 1  # rows come group by group
    assert {"log_extra", "log_metric", "trainer_state"} <= calls.keys()
    inputs, prompts, completions, ids, _ = trainer.scored
    assert [row["sample_id"] for row in inputs] == calls["sample_id"]
    assert all(completion[0]["role"] == "assistant" for completion in completions)
    assert all(isinstance(completion[0]["content"], str) for completion in completions)
    assert all(1 <= len(row) <= 6 for row in ids)
    assert prompts[0][0]["content"][0]["type"] == "image"


def test_unjudged_rows_leave_the_baseline_and_get_no_advantage(student, tmp_path):
    trainer = one_step(student, tmp_path, [some_unjudged], scale_rewards="none")
    advantages = trainer.output["advantages"]
    mean = (0.1 + 0.7 + 0.4) / 3
    assert advantages.tolist() == pytest.approx([0.1 - mean, 0, 0.7 - mean, 0.4 - mean, 0, 0, 0, 0], abs=1e-6)
    rewards = trainer.scored[4]
    assert rewards.shape == (8, 1)
    assert torch.isnan(rewards[:, 0]).tolist() == [value is None for value in VALUES]


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_our_group_advantages_are_trls(student, tmp_path, scale):
    async def reward(completions, **columns):
        return [None if row == 5 else 0.1 * row * row for row in range(len(completions))]

    trainer = one_step(student, tmp_path, [reward], scale_rewards=scale)
    actual = group_advantages(trainer.scored[4][:, 0], 4, scale=scale)
    assert torch.allclose(actual, trainer.output["advantages"], atol=1e-5)


def test_normalize_then_sum_is_the_closed_form_of_gdpo(student, tmp_path):
    item = [0.0, 1.0, 1.0, 0.0, 0.2, 0.4, 0.6, 0.8]
    two = [5.0, 5.0, 1.0, 1.0, 3.0, 2.0, 1.0, 0.0]

    def first(completions, **columns):
        return item

    def second(completions, **columns):
        return two

    trainer = one_step(
        student,
        tmp_path,
        [first, second],
        reward_weights=[0.3, 0.7],
        multi_objective_aggregation="normalize_then_sum",
    )

    def z(values):
        mean = sum(values) / len(values)
        deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
        return [(value - mean) / (deviation + 1e-4) for value in values]

    columns = [z(values[:4]) + z(values[4:]) for values in (item, two)]
    expected = z([0.3 * a + 0.7 * b for a, b in zip(*columns, strict=True)])
    assert trainer.output["advantages"].tolist() == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("unjudged", [(), (5,), (4, 5, 6), (0, 1, 2, 3)])
def test_our_decoupled_advantages_are_trls_normalize_then_sum(student, tmp_path, unjudged):
    columns = [[0.9, 0.2, 0.4, 0.4, 0.1, 0.8, 0.3, 0.6], [3.0, 5.0, 1.0, 2.0, 4.0, 4.0, 4.0, 4.0]]

    def reward(column):
        return lambda completions, **_: [None if row in unjudged else value for row, value in enumerate(column)]

    trainer = one_step(
        student,
        tmp_path,
        [reward(column) for column in columns],
        reward_weights=[0.3, -0.7],
        multi_objective_aggregation="normalize_then_sum",
    )
    actual = decoupled_advantages(trainer.scored[4], [0.3, -0.7], 4)
    assert torch.allclose(actual, trainer.output["advantages"], atol=1e-5)
    assert (actual[list(unjudged)] == 0).all()
    assert actual.abs().max() > 0.5


def test_trl_reads_a_missing_reward_as_0_and_ours_does_not(student, tmp_path):
    """A failure means that TRL has changed, and that the docstring of rl/decoupled.py needs an update."""
    first = [0.1, 0.5, 0.9, 0.3, 0.2, 0.7, 0.4, 0.8]

    def advantages(other):
        trainer = one_step(
            student,
            tmp_path,
            [lambda completions, **_: first, lambda completions, **_: other],
            multi_objective_aggregation="normalize_then_sum",
        )
        return trainer.output["advantages"], decoupled_advantages(trainer.scored[4], [1.0, 1.0], 4)

    trls, actual = advantages([0.2, None, 0.6, 0.1, 0.5, 0.4, 0.3, 0.9])
    assert trls[1] != 0
    assert actual[1] == 0
    trls, actual = advantages([1 - value for value in first])
    assert trls.abs().max() > 0
    assert (actual == 0).all()


def test_a_scored_batch_holds_the_row_tensors_that_a_subclass_may_slice(student, tmp_path):
    output = one_step(student, tmp_path, [some_unjudged]).output
    for name in ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages", "mm_token_type_ids"):
        assert output[name].shape[0] == 8, name
    assert output["image_grid_thw"].shape == (8, 3)
    assert output["pixel_values"].shape[0] == int(output["image_grid_thw"].prod(1).sum())
    assert output["num_images"] == [1] * 8
    assert output["num_items_in_batch"] == output["completion_mask"].sum()


def test_the_wrapped_methods_keep_their_signatures():
    rewards = inspect.signature(GRPOTrainer._calculate_rewards).parameters
    assert list(rewards) == ["self", "inputs", "prompts", "completions", "completion_ids_list"]
    assert list(inspect.signature(GRPOTrainer._generate_and_score_completions).parameters) == ["self", "inputs"]
    assert list(inspect.signature(GRPOTrainer._get_train_sampler).parameters) == ["self", "dataset"]
    assert "_init_training_state" in vars(Trainer)


class TitleGrader:
    """A criterion is met by the response that holds its title."""

    exposure, judges = "text", ()

    async def grade(self, sample, response, rubric):
        verdicts = [
            Verdict(criterion=criterion.criterion, credit=float(criterion.criterion in str(response)))
            for criterion in rubric.criteria
        ]
        return Scorecard(
            sample_id=sample.sample_id, response=Response.of(response), judge="titles", verdicts=tuple(verdicts)
        )


CALL = {"function": {"name": "look", "arguments": {"at": "red"}}}
SAYS_RED = [
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "name": "look", "content": "nothing"},
    {"role": "assistant", "content": "a circle"},
]
SAYS_CIRCLE = [{"role": "assistant", "content": "a circle"}]


class WithConversations(Recorded):
    """Scores conversations in the place of what the policy wrote: each group's first names red in a call."""

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        completions = [SAYS_RED, SAYS_CIRCLE, SAYS_CIRCLE, SAYS_CIRCLE] * 2
        return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options", "rewards"),
    [
        (RubricReward, {}, [1, 0.25]),
        (GroupReward, {"group_size": 4, "gate": False}, [1, 0.25]),
    ],
)
def test_each_rubric_reward_grades_conversations_into_trls_table(student, tmp_path, kind, options, rewards):
    criteria = (Criterion(criterion="red", weight=3), Criterion(criterion="circle", weight=1))
    rubric = Rubric(criteria=criteria).model_dump_json()
    reward = kind(TitleGrader(), view="full_trace", **options)
    trainer = one_step(student, tmp_path, [reward], kind=WithConversations, rubric=rubric, log_completions=True)
    assert trainer.scored[4][:, 0].tolist() == pytest.approx([rewards[0], *[rewards[1]] * 3] * 2)
    met, missed = "red (+3): 1\ncircle (+1): 1", "red (+3): 0\ncircle (+1): 1"
    assert list(trainer._logs["extra"]["verdicts"]) == [met, missed, missed, missed] * 2
