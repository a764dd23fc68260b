"""RLR³'s equation 1 against its definition: the mean over the tokens of a group, groups weighing the same."""

import torch
from coloured_squares import policy_rows
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from trl import GRPOConfig

from rubricworks.training.generate import decode_image, load_model
from rubricworks.training.policy.rollouts import PolicyTrainer, group_token_weights

REWARDS = [0.9, 0.1, None, 0.4, 0.0, 1.0, 0.0, 0.3]
LONGEST = 6


@given(st.lists(st.integers(1, 30), min_size=8, max_size=8), st.sampled_from([2, 4, 8]))
def test_weighted_sum_over_a_constant_is_the_mean_over_each_groups_tokens(lengths, group_size):
    losses = [torch.rand(length) for length in lengths]
    weights = group_token_weights(torch.tensor(lengths), group_size, 30)
    actual = sum(float(weight) * loss.sum() for weight, loss in zip(weights, losses, strict=True)) / (len(lengths) * 30)
    groups = [losses[start : start + group_size] for start in range(0, len(losses), group_size)]
    expected = torch.stack([torch.cat(group).mean() for group in groups]).mean()
    assert torch.isclose(actual, expected)


def test_group_without_a_judged_response_does_not_divide_by_zero():
    assert torch.isfinite(group_token_weights(torch.zeros(4, dtype=torch.long), 4, 10)).all()


class Recorded(PolicyTrainer):
    def _generate_and_score_completions(self, inputs):
        self.output = super()._generate_and_score_completions(inputs)
        return dict(self.output)


async def fixed_rewards(prompts, completions, **columns):
    return REWARDS


def test_a_training_step_moves_the_weights_along_the_gradient_of_equation_1(student, tmp_path):
    model, processor = load_model(student, dtype="float32")
    rows = [
        {**row, "image": decode_image(row["image"]), "prompt": [{"role": "user", "content": row["prompt"]}]}
        for row in policy_rows()
    ]
    steps = []
    trainer = Recorded(
        model=model,
        reward_funcs=[fixed_rewards],
        args=GRPOConfig(
            output_dir=str(tmp_path), max_steps=1, per_device_train_batch_size=4, gradient_accumulation_steps=2,
            num_generations=4, max_completion_length=LONGEST, beta=0.0, loss_type="dr_grpo", optim="sgd",
            learning_rate=1.0, lr_scheduler_type="constant", max_grad_norm=0.0, bf16=False,
            activation_checkpointing=False, save_strategy="no", dataloader_pin_memory=False, disable_tqdm=True,
            report_to="none",
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=processor,
        on_rollouts=steps.append,
        mean_over_group=True,
    )  # fmt: skip
    before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    trainer.train()
    moved = {name: before[name] - value.detach() for name, value in trainer.model.named_parameters()}

    with torch.no_grad():
        for name, value in trainer.model.named_parameters():
            value.copy_(before[name])
    trainer.model.zero_grad()
    output, advantages = trainer.output, torch.tensor(steps[0].advantages)
    mask = output["completion_mask"]
    logps, _ = trainer._get_per_token_logps_and_entropies(
        trainer.model,
        torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1),
        torch.cat([output["prompt_mask"], mask], dim=1),
        mask.shape[1],
        pixel_values=output["pixel_values"],
        image_grid_thw=output["image_grid_thw"],
        num_images=output["num_images"],
        mm_token_type_ids=output.get("mm_token_type_ids"),
    )[:2]
    judged = torch.tensor([reward is not None for reward in REWARDS])
    objective = torch.zeros(())
    for group in (range(0, 4), range(4, 8)):
        rows_in = [row for row in group if judged[row]]
        tokens = sum(int(mask[row].sum()) for row in rows_in)
        ratio = (logps - logps.detach()).exp() * mask
        objective = objective + sum(advantages[row] * ratio[row].sum() for row in rows_in) / tokens / 2
    (-objective).backward()
    gradients = {name: value.grad for name, value in trainer.model.named_parameters() if value.grad is not None}
    assert max(float(gradient.abs().max()) for gradient in gradients.values()) > 1e-3
    for name, gradient in gradients.items():
        torch.testing.assert_close(moved[name], gradient, rtol=1e-3, atol=1e-5)
