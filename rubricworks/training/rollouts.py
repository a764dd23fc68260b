"""GRPO with two additions: every step's rollouts are handed out, with what they earned, and RLR³'s token mean.

Equation 1 of RLR³ averages over the tokens of a group, and groups weigh the same; TRL knows the mean over a response
or over the whole batch. Its `dr_grpo` loss divides by a constant, and advantages enter it as factors, so advantages
scaled by `group_token_weights` give equation 1 exactly, also with accumulation and on several processes.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from accelerate.utils import gather_object
from torch import Tensor
from trl import GRPOTrainer

from rubricworks.errors import UserError

_UNJUDGED_STEPS = 3


class StepRollouts(NamedTuple):
    """All rollouts drawn for one optimizer step, group by group; the lists are aligned."""

    step: int
    sample_ids: list[str]
    responses: list[str]
    tokens: list[int]
    rewards: list[float | None]
    """None where the response could not be judged."""
    advantages: list[float]


class PolicyTrainer(GRPOTrainer):
    """TRL's trainer, plus `on_rollouts`, called on the main process once per batch of rollouts.

    The two methods it wraps are private to TRL; tests/training/test_trl_contract.py holds what is relied upon.
    """

    def __init__(
        self,
        *args: Any,
        on_rollouts: Callable[[StepRollouts], None],
        mean_over_group: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            mean_over_group: average the loss as equation 1 does; the configuration's loss_type must be `dr_grpo`.
        """
        self._on_rollouts = on_rollouts
        self._mean_over_group = mean_over_group
        self._scored: tuple[list[tuple[str, str, int]], list[float]] = ([], [])
        self._unjudged_steps = 0
        super().__init__(*args, **kwargs)

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        rewards_per_func = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        rows = [
            (str(row["sample_id"]), _text(completion), len(ids))
            for row, completion, ids in zip(inputs, completions, completion_ids_list, strict=True)
        ]
        self._scored = (gather_object(rows), rewards_per_func[:, 0].tolist())
        return rewards_per_func

    def _generate_and_score_completions(self, inputs):
        step = self.state.global_step + 1
        output = super()._generate_and_score_completions(inputs)
        rows, scores = self._scored
        advantages = self.accelerator.gather(output["advantages"]).tolist()
        rewards = [None if math.isnan(score) else score for score in scores]
        if self.accelerator.is_main_process:
            sample_ids, responses, tokens = (list(column) for column in zip(*rows, strict=True))
            self._on_rollouts(StepRollouts(step, sample_ids, responses, tokens, rewards, advantages))
        if self._mean_over_group:
            here = slice(
                self.accelerator.process_index * len(inputs), (self.accelerator.process_index + 1) * len(inputs)
            )
            judged = torch.tensor([reward is not None for reward in rewards[here]], device=output["advantages"].device)
            tokens = output["completion_mask"].sum(dim=1) * judged
            weights = group_token_weights(tokens, self.num_generations, self.max_completion_length)
            output["advantages"] = output["advantages"] * weights
        self._unjudged_steps = self._unjudged_steps + 1 if all(reward is None for reward in rewards) else 0
        if self._unjudged_steps == min(_UNJUDGED_STEPS, self.state.max_steps):
            raise UserError(
                f"no rollout could be judged in the last {self._unjudged_steps} steps (up to step {step}); check the "
                "judge; training continues from its last checkpoint"
            )
        return output


def group_token_weights(tokens_N: Tensor, group_size: int, max_tokens: int) -> Tensor:
    """Factors for the advantages, shape [N], that turn sum(loss) / (N * max_tokens) into equation 1's mean.

    Args:
        tokens_N: tokens of each response that the loss counts, 0 for one that could not be judged; group by group.
        group_size: responses per group; N is a multiple of it.
        max_tokens: the constant that `dr_grpo` divides each response by.
    """
    tokens_G = tokens_N.view(-1, group_size).sum(dim=1).clamp(min=1)
    return (group_size * max_tokens / tokens_G).repeat_interleave(group_size)


def _text(completion: str | Sequence[dict]) -> str:
    return completion if isinstance(completion, str) else "".join(turn["content"] or "" for turn in completion)
