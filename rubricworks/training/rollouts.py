"""TRL's GRPO trainer with a callback for each step's rollouts, c-GDPO, a penalty and RLR³'s token mean.

A rollout has all of its rewards or none: TRL sums the rewards that are present, which would turn a judge's failure into
a score. In c-GDPO the advantages are those of `rl.decoupled_advantages`, which equal TRL's unless all rewards of a
group are equal.

Equation 1 of RLR³ averages over the tokens of a group, with equal weight per group; TRL offers the mean over a response
or over the whole batch. TRL's `dr_grpo` loss divides by a constant and advantages enter it as factors, so advantages
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
from rubricworks.rl import decoupled_advantages, group_advantages
from rubricworks.rl.advantages import Scale
from rubricworks.rubrics import Response
from rubricworks.training.config import SelectionOptions, VllmOptions
from rubricworks.training.selection import keep_rows, select_rows
from rubricworks.training.vllm_rollouts import (
    LOGP_DIFFERENCE,
    OUT_OF_BOUNDS,
    SamplerAgreement,
    count_out_of_bounds,
    mend_generation,
)

Penalty = Callable[..., Sequence[float]]
"""`penalty(prompts=…, completions=…, completion_ids=…, sample_id=[…], …)`: amounts to subtract from the advantages.

It takes the arguments of a reward function and is synchronous.
"""

_UNJUDGED_STEPS = 3
_ROLLOUT = ("prompt", "completion", "completion_ids")
"""Keys of TRL's rows that are not columns of the dataset."""


class StepRollouts(NamedTuple):
    """All rollouts of one generation, group by group, in aligned lists."""

    step: int
    """First optimizer step that uses them; the only one, unless num_iterations or steps_per_generation is above 1."""
    sample_ids: list[str]
    responses: Sequence[str | Response]
    tokens: list[int]
    rewards: list[float | None]
    """Weighted sums of the reward functions' values; None if the response could not be judged."""
    advantages: list[float | None]
    """Advantages after the penalty, if there is one; None for a rollout that the step does not train on."""
    components: dict[str, list[float | None]] = {}  # noqa: RUF012 - a tuple's default, never written to
    """Name of a reward function → its values."""


class _Scored(NamedTuple):
    """Rows of all processes, as `_calculate_rewards` gathers them."""

    rows: list[tuple[str, str | Response, int]]
    rewards_NK: Tensor
    judged_N: Tensor
    penalties_N: Tensor | None


class PolicyTrainer(GRPOTrainer):
    """TRL's trainer, plus `on_rollouts`, called on the main process once per batch of rollouts.

    It wraps private methods of TRL and Transformers; tests/training/test_trl_contract.py checks their contract.
    """

    args: GRPOConfig
    num_generations: int
    max_completion_length: int
    scale_rewards: Scale

    def __init__(
        self,
        *args: Any,
        on_rollouts: Callable[[StepRollouts], None],
        mean_over_group: bool = False,
        penalty: Penalty | None = None,
        sampler: VllmOptions | None = None,
        selection: SelectionOptions | None = None,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            mean_over_group: average the loss by equation 1; requires loss_type `dr_grpo` in the configuration.
            penalty: subtracted from the advantages of judged rollouts (BalCapRL, A.5).
            sampler: vLLM's options: the limit of `vllm_rollouts.SamplerAgreement`, and the bounds of the ratio.
            selection: rollouts of each group to train on; all by default.
        """
        self._selection = selection
        self._on_rollouts = on_rollouts
        self._mean_over_group = mean_over_group
        self._penalty = penalty
        self._scored: _Scored
        self._unjudged_steps = 0
        self._sampler_options = sampler or VllmOptions()
        self._agreement = SamplerAgreement(self._sampler_options.max_logp_difference)
        super().__init__(*args, **kwargs)
        if self.use_vllm:
            mend_generation(self.vllm_generation)

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        self._sampler = super()._get_train_sampler(dataset)
        return self._sampler

    def _init_training_state(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """Advance the sampler past the finished epochs, because each epoch's order depends on the ones before."""
        epochs, batches = super()._init_training_state(*args, **kwargs)
        for _ in range(epochs):
            next(iter(self._sampler))
        return epochs, batches

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Tensor:
        rewards_NK = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        rows = [
            (str(row["sample_id"]), _response(completion), len(ids))
            for row, completion, ids in zip(inputs, completions, completion_ids_list, strict=True)
        ]
        penalties_N = None
        if self._penalty is not None:
            columns = {name: [row[name] for row in inputs] for name in inputs[0] if name not in _ROLLOUT}
            rollouts = {"prompts": prompts, "completions": completions, "completion_ids": completion_ids_list}
            penalties_N = self.accelerator.gather(rewards_NK.new_tensor(self._penalty(**rollouts, **columns)))
        judged_N = ~rewards_NK.isnan().any(dim=1)
        self._scored = _Scored(gather_object(rows), rewards_NK, judged_N, penalties_N)
        return rewards_NK.masked_fill(~judged_N[:, None], torch.nan)

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        step = self.state.global_step + 1
        output = super()._generate_and_score_completions(inputs)
        rows, rewards_NK, judged_N, penalties_N = self._scored
        weights_K = self.args.reward_weights or [1.0] * len(self.reward_func_names)
        weighted_N = (rewards_NK.cpu().double() * torch.tensor(weights_K, dtype=torch.float64)).sum(dim=1)
        kept = self._kept_rows(_values(weighted_N), step)
        advantages_N = self._advantages(output["advantages"], rewards_NK, weighted_N, kept)
        if penalties_N is not None:
            advantages_N = torch.where(judged_N, advantages_N - penalties_N, advantages_N)
        first = self.accelerator.process_index * len(inputs)
        output["advantages"] = advantages_N[first : first + len(inputs)]
        if self.accelerator.is_main_process:
            sample_ids, responses, tokens = (list(column) for column in zip(*rows, strict=True))
            components = dict(zip(self.reward_func_names, map(_values, rewards_NK.T), strict=True))
            trained_on = set(kept)
            advantages = [value if row in trained_on else None for row, value in enumerate(advantages_N.tolist())]
            self._on_rollouts(
                StepRollouts(step, sample_ids, responses, tokens, _values(weighted_N), advantages, components)
            )
        # TRL measures it, over all processes, as part of its importance sampling correction.
        if differences := self._metrics["train"].get(LOGP_DIFFERENCE):
            self._agreement.update(step, differences[-1])
            counts = count_out_of_bounds(
                output["old_per_token_logps"] - output["sampling_per_token_logps"],
                output["completion_mask"].bool(),
                self._sampler_options,
            )
            outside, all_ratios = self.accelerator.gather(counts[None]).sum(dim=0).tolist()
            self._metrics["train"][OUT_OF_BOUNDS].append(outside / max(all_ratios, 1))
        local = [row - first for row in kept if first <= row < first + len(inputs)]
        if self._selection is not None:
            output = keep_rows(output, local, len(inputs))
            output["num_items_in_batch"] = self.accelerator.gather(output["completion_mask"].sum()).sum()
        if self._mean_over_group:
            tokens_N = output["completion_mask"].sum(dim=1) * judged_N[first:][local]
            group_size = self._selection.keep if self._selection else self.num_generations
            weights = group_token_weights(tokens_N, group_size, self.max_completion_length)
            output["advantages"] = output["advantages"] * weights
        self._unjudged_steps = 0 if judged_N.any() else self._unjudged_steps + 1
        passes = (self.args.steps_per_generation or 1) * self.num_iterations
        generations = math.ceil(self.state.max_steps * self.args.gradient_accumulation_steps / passes)
        if self._unjudged_steps == min(_UNJUDGED_STEPS, generations):
            raise UserError(
                f"no rollout could be judged in the last {self._unjudged_steps} steps (up to step {step}); check the "
                "judge; training continues from its last checkpoint"
            )
        return output

    def _kept_rows(self, rewards_N: list[float | None], step: int) -> list[int]:
        """Rows to train on, of all processes."""
        if self._selection is None:
            return list(range(len(rewards_N)))
        return select_rows(rewards_N, self.num_generations, self._selection, seed=self.args.seed, step=step)

    def _advantages(self, of_trl: Tensor, rewards_NK: Tensor, weighted_N: Tensor, kept: list[int]) -> Tensor:
        """Advantages of all processes' rollouts; those that are not kept have any value.

        Args:
            of_trl: TRL's own, of this process.
        """
        decoupled = self.multi_objective_aggregation == "normalize_then_sum"
        weights_K = self.reward_weights.to(rewards_NK)
        if self._selection is None or self._selection.normalise == "all":
            if decoupled:
                return decoupled_advantages(rewards_NK, weights_K, self.num_generations)
            return self.accelerator.gather(of_trl)
        keep = self._selection.keep
        if decoupled:
            of_kept = decoupled_advantages(rewards_NK[kept], weights_K, keep)
        else:
            of_kept = group_advantages(weighted_N[kept].to(rewards_NK), keep, scale=self.scale_rewards)
        advantages_N = torch.zeros_like(rewards_NK[:, 0])
        advantages_N[kept] = of_kept
        return advantages_N


def group_token_weights(tokens_N: Tensor, group_size: int, max_tokens: int) -> Tensor:
    """Factors for the advantages, shape [N], that turn sum(loss) / (N * max_tokens) into equation 1's mean.

    Args:
        tokens_N: tokens of each response in the loss, group by group; 0 for a response that could not be judged.
        group_size: responses per group; N is a multiple of it.
        max_tokens: the constant that `dr_grpo` divides each response by.
    """
    tokens_G = tokens_N.view(-1, group_size).sum(dim=1).clamp(min=1)
    return (group_size * max_tokens / tokens_G).repeat_interleave(group_size)


def _response(completion: str | Response | Sequence[dict[str, Any]]) -> str | Response:
    return (
        completion if isinstance(completion, str | Response) else "".join(turn["content"] or "" for turn in completion)
    )


def _values(rewards_N: Tensor) -> list[float | None]:
    return [None if math.isnan(reward) else reward for reward in rewards_N.tolist()]
