"""GRPO with additions: every step's rollouts are handed out, with what they earned; c-GDPO and RLR³'s token mean.

Several rewards are all there or all missing: TRL adds up what is there, which makes a judge's failure a score. In
c-GDPO the advantages are those of `rl.decoupled_advantages`, which are TRL's except where nothing tells rollouts apart.

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
from trl import GRPOConfig, GRPOTrainer

from rubricworks.errors import UserError
from rubricworks.rl import decoupled_advantages

Penalty = Callable[..., Sequence[float]]
"""`penalty(prompts=…, completions=…, completion_ids=…, sample_id=[…], …)`: what to take from each advantage.

It is called as a reward function is, and is not asynchronous.
"""

_UNJUDGED_STEPS = 3
_ROLLOUT = ("prompt", "completion", "completion_ids")
"""Not columns of the data."""


class StepRollouts(NamedTuple):
    """All rollouts drawn for one optimizer step, group by group; the lists are aligned."""

    step: int
    sample_ids: list[str]
    responses: list[str]
    tokens: list[int]
    rewards: list[float | None]
    """Weighted sums of the reward functions' values; None where the response could not be judged."""
    advantages: list[float]
    """After the penalty, if there is one."""
    components: dict[str, list[float | None]] = {}  # noqa: RUF012 - a tuple's default, never written to
    """Name of a reward function → its values."""


class _Scored(NamedTuple):
    """Rows of all processes, as `_calculate_rewards` gathers them."""

    rows: list[tuple[str, str, int]]
    rewards_NK: Tensor
    judged_N: Tensor
    penalties_N: Tensor | None


class PolicyTrainer(GRPOTrainer):
    """TRL's trainer, plus `on_rollouts`, called on the main process once per batch of rollouts.

    The methods it wraps are private to TRL and Transformers; tests/training/test_trl_contract.py holds what is relied
    upon.
    """

    args: GRPOConfig
    num_generations: int
    max_completion_length: int

    def __init__(
        self,
        *args: Any,
        on_rollouts: Callable[[StepRollouts], None],
        mean_over_group: bool = False,
        penalty: Penalty | None = None,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            mean_over_group: average the loss as equation 1 does; the configuration's loss_type must be `dr_grpo`.
            penalty: taken from the advantages of rollouts that could be judged (BalCapRL, A.5).
        """
        self._on_rollouts = on_rollouts
        self._mean_over_group = mean_over_group
        self._penalty = penalty
        self._scored: _Scored
        self._unjudged_steps = 0
        super().__init__(*args, **kwargs)

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        self._sampler = super()._get_train_sampler(dataset)
        return self._sampler

    def _init_training_state(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """Each epoch's order follows from the ones before, so a resumed training draws those of the finished epochs."""
        epochs, batches = super()._init_training_state(*args, **kwargs)
        for _ in range(epochs):
            next(iter(self._sampler))
        return epochs, batches

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Tensor:
        rewards_NK = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        rows = [
            (str(row["sample_id"]), _text(completion), len(ids))
            for row, completion, ids in zip(inputs, completions, completion_ids_list, strict=True)
        ]
        penalties_N = None
        if self._penalty is not None:
            columns = {name: [row[name] for row in inputs] for name in inputs[0] if name not in _ROLLOUT}
            drawn = {"prompts": prompts, "completions": completions, "completion_ids": completion_ids_list}
            penalties_N = self.accelerator.gather(rewards_NK.new_tensor(self._penalty(**drawn, **columns)))
        judged_N = ~rewards_NK.isnan().any(dim=1)
        self._scored = _Scored(gather_object(rows), rewards_NK, judged_N, penalties_N)
        return rewards_NK.masked_fill(~judged_N[:, None], torch.nan)

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        step = self.state.global_step + 1
        output = super()._generate_and_score_completions(inputs)
        here = slice(self.accelerator.process_index * len(inputs), (self.accelerator.process_index + 1) * len(inputs))
        rows, rewards_NK, judged_N, penalties_N = self._scored
        if self.multi_objective_aggregation == "normalize_then_sum":
            advantages_N = decoupled_advantages(rewards_NK, self.reward_weights.to(rewards_NK), self.num_generations)
        else:
            advantages_N = self.accelerator.gather(output["advantages"])
        if penalties_N is not None:
            advantages_N = torch.where(judged_N, advantages_N - penalties_N, advantages_N)
        output["advantages"] = advantages_N[here]
        if self.accelerator.is_main_process:
            sample_ids, responses, tokens = (list(column) for column in zip(*rows, strict=True))
            weights_K = self.args.reward_weights or [1.0] * len(self.reward_func_names)
            weighted_N = (rewards_NK.cpu().double() * torch.tensor(weights_K, dtype=torch.float64)).sum(dim=1)
            components = dict(zip(self.reward_func_names, map(_values, rewards_NK.T), strict=True))
            self._on_rollouts(
                StepRollouts(
                    step, sample_ids, responses, tokens, _values(weighted_N), advantages_N.tolist(), components
                )
            )
        if self._mean_over_group:
            counted = output["completion_mask"].sum(dim=1) * judged_N[here]
            weights = group_token_weights(counted, self.num_generations, self.max_completion_length)
            output["advantages"] = output["advantages"] * weights
        self._unjudged_steps = 0 if judged_N.any() else self._unjudged_steps + 1
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


def _text(completion: str | Sequence[dict[str, Any]]) -> str:
    return completion if isinstance(completion, str) else "".join(turn["content"] or "" for turn in completion)


def _values(rewards_N: Tensor) -> list[float | None]:
    return [None if math.isnan(reward) else reward for reward in rewards_N.tolist()]
