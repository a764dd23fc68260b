"""TRL's GRPO trainer with a callback for each step's rollouts, c-GDPO, a penalty and RLR³'s token mean.

A rollout has all of its rewards or none: TRL sums the rewards that are present, which would turn a judge's failure into
a score. In c-GDPO the advantages are those of `rl.decoupled_advantages`, which equal TRL's unless all rewards of a
group are equal.

Equation 1 of RLR³ averages over the tokens of a group, with equal weight per group; TRL offers the mean over a response
or over the whole batch. TRL's `dr_grpo` loss divides by a constant and advantages enter it as factors, so advantages
scaled by `group_token_weights` give equation 1 exactly, also with accumulation and on several processes.
"""

import logging
import math
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from accelerate.utils import gather_object
from torch import Tensor
from trl import GRPOConfig, GRPOTrainer
from trl.data_utils import is_conversational, prepare_multimodal_messages

from rubricworks.adapters.rows import completion_text
from rubricworks.adapters.trl import GroupReward
from rubricworks.errors import UserError
from rubricworks.llm.served import SLEEPING_ENV
from rubricworks.rl import decoupled_advantages, group_advantages
from rubricworks.rl.advantages import Scale
from rubricworks.rubrics import Response
from rubricworks.training.checkpoints import load_renamed_weights
from rubricworks.training.config import RefillOptions, SelectionOptions, VllmOptions
from rubricworks.training.policy.ended_rows import EarlyCalls, Start, ended_rows_of_generate, ended_rows_of_vllm
from rubricworks.training.policy.refill import (
    PASSES,
    Group,
    check_reward_passes,
    join_generated,
    other_prompts,
    split_groups,
)
from rubricworks.training.policy.selection import keep_rows, select_rows
from rubricworks.training.policy.vllm_rollouts import (
    LOGP_DIFFERENCE,
    OUT_OF_BOUNDS,
    SamplerAgreement,
    count_out_of_bounds,
    mend_generation,
)
from rubricworks.training.processes import is_main
from rubricworks.training.progress import StepTimes

if TYPE_CHECKING:
    from rubricworks.training.policy.judge_sleep import SleepingJudges

Penalty = Callable[..., Sequence[float]]
"""`penalty(prompts=…, completions=…, completion_ids=…, sample_id=[…], …)`: amounts to subtract from the advantages.

It takes the arguments of a reward function and is synchronous.
"""

logger = logging.getLogger(__name__)

_ROLLOUT = ("prompt", "completion", "completion_ids")
"""Keys of TRL's rows that are not columns of the dataset."""
PATIENCE = 3
"""Consecutive steps without anything to learn from, after which a training stops."""


def _sleeping_judges() -> "SleepingJudges | None":
    """The served judges that sleep while weights are updated; None without any."""
    if not os.environ.get(SLEEPING_ENV):
        return None
    from rubricworks.training.policy.judge_sleep import SleepingJudges

    return SleepingJudges(is_main())


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


Row = tuple[str, str | Response, int]
"""Sample id, response, tokens."""


class _Scored(NamedTuple):
    """Rows of all processes, as `_calculate_rewards` gathers them."""

    rows: list[Row]
    rewards_NK: Tensor
    judged_N: Tensor
    penalties_N: Tensor | None


class _Drawn(NamedTuple):
    """All rollouts that a step with `refill` drew, and the groups of its batch."""

    groups: list[Group]
    """Groups of this process; those without a signal are only there for the batch's shape."""
    signals: list[bool]
    """Per group of the batch, of all processes: it is trained on."""
    rows: list[Row]
    """Rollouts of all processes, one process after the other."""
    rewards_NK: Tensor
    places: list[int]
    """Position in `rows` of each rollout of the batch, of all processes."""


class UnjudgedSteps:
    """Count of consecutive generations without a judged rollout."""

    def __init__(self) -> None:
        self._count = 0

    def update(self, step: int, judged: bool, generations: int) -> None:
        """Take one generation.

        Args:
            judged: some of its rollouts were judged.
            generations: generations of the whole training.
        Raises:
            UserError: none of the last few could be judged.
        """
        self._count = 0 if judged else self._count + 1
        if self._count == min(PATIENCE, generations):
            raise UserError(
                f"no rollout could be judged in the last {self._count} steps (up to step {step}); check the "
                "judge; training continues from its last checkpoint"
            )


class PolicyTrainer(GRPOTrainer):
    """TRL's trainer, plus `on_rollouts`, called on the main process once per batch of rollouts.

    It wraps private methods of TRL and Transformers; tests/training/policy/test_trl_contract.py checks their contract.
    """

    args: GRPOConfig
    num_generations: int
    eos_token_ids: list[int]
    max_completion_length: int
    scale_rewards: Scale

    def __init__(
        self,
        *args: Any,
        on_rollouts: Callable[[StepRollouts], None],
        mean_over_group: bool = False,
        penalty: Penalty | None = None,
        start: Start | None = None,
        times: StepTimes | None = None,
        sampler: VllmOptions | None = None,
        selection: SelectionOptions | None = None,
        refill: RefillOptions | None = None,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            mean_over_group: average the loss by equation 1; requires loss_type `dr_grpo` in the configuration.
            penalty: subtracted from the advantages of judged rollouts (BalCapRL, A.5).
            start: called with rollouts that end while others of their batch are still being sampled.
            times: of its steps.
            sampler: vLLM's options: the limit of `vllm_rollouts.SamplerAgreement`, and the bounds of the ratio.
            selection: rollouts of each group to train on; all by default.
            refill: draws of other prompts for those without a signal; none by default.
        Raises:
            UserError: no reward says which rollouts pass the criterion of `refill`.
        """
        self._selection = selection
        self._refill = refill
        self._batch: list[Group] = []
        """Groups that TRL takes for its next batch instead of generating."""
        self._idle_steps = 0
        self._said_missing = False
        self._on_rollouts = on_rollouts
        self._mean_over_group = mean_over_group
        self._penalty = penalty
        self._start_calls = start
        self._times = times or StepTimes()
        self._early: EarlyCalls | None = None
        self._sampled_rows: list[dict[str, Any]] = []
        """TRL's rows of the batch that is sampled."""
        self._scored: _Scored
        self._unjudged = UnjudgedSteps()
        self._judges = _sleeping_judges()
        self._sampler_options = sampler
        self._agreement = SamplerAgreement(None if sampler is None else sampler.max_logp_difference)
        super().__init__(*args, **kwargs)
        if self._judges is not None:
            self.callback_handler.callbacks.insert(0, self._judges)
        for reward in self.reward_funcs:
            if isinstance(reward, GroupReward):
                reward.end_ids = self.eos_token_ids
        if refill is not None:
            check_reward_passes(self.reward_funcs, refill.criterion)
        if self.use_vllm:
            mend_generation(self.vllm_generation)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if not load_renamed_weights(Path(resume_from_checkpoint), model or self.model):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        self._sampler = super()._get_train_sampler(dataset)
        return self._sampler

    def _init_training_state(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """Advance the sampler past the finished epochs, because each epoch's order depends on the ones before."""
        epochs, batches = super()._init_training_state(*args, **kwargs)
        for _ in range(epochs):
            next(iter(self._sampler))
        return epochs, batches

    def _generate(self, prompts: Any) -> tuple[Any, ...]:
        if self._batch:
            return join_generated(self._batch)
        with self._times.part("sampler"):
            return self._sample(prompts)

    def _sample(self, prompts: Any) -> tuple[Any, ...]:
        if self._start_calls is None:
            return super()._generate(prompts)
        rows = self._sampled_rows
        columns = {name: [row[name] for row in rows] for name in rows[0] if name not in _ROLLOUT}
        self._early = EarlyCalls(self._start_calls, self.async_loop, columns, prompts, self._decode_completions)
        generated = super()._generate(prompts)
        self._early.start_rest(generated[3])
        return generated

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
        with self._ended_rows():
            return super()._generate_single_turn(*args, **kwargs)

    def _ended_rows(self) -> AbstractContextManager[None]:
        """Start the calls for rollouts that end while the block samples, if the sampler reports them."""
        has_parser = any(getattr(self._tokenizer, name, None) for name in ("response_template", "response_schema"))
        if self._early is None or has_parser:
            return nullcontext()
        if not self.use_vllm:
            model = self.accelerator.unwrap_model(self.model_wrapped)
            return ended_rows_of_generate(model, self.eos_token_ids, self._early.start_ended)
        if self.vllm_generation.mode == "colocate" and self.vllm_generation.tensor_parallel_size == 1:
            return ended_rows_of_vllm(self.vllm_generation.llm, self._early.start_ended)
        return nullcontext()

    def _decode_completions(self, token_ids: list[list[int]]) -> list[Any]:
        """Completions of tokens, as TRL's `_generate` makes them."""
        processor: Any = self.processing_class
        texts = processor.batch_decode(token_ids, skip_special_tokens=True)
        if not is_conversational({"prompt": self._sampled_rows[0]["prompt"]}):
            return list(texts)
        return [[{"role": "assistant", "content": text}] for text in texts]

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Tensor:
        if self._batch:
            rewards_NK = self.accelerator.gather(torch.cat([group.rewards_GK for group in self._batch]))
        else:
            with self._times.part("judge"):
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

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        if self._judges is not None:
            self._judges.sleep()
            self.accelerator.wait_for_everyone()
        return super().compute_loss(*args, **kwargs)

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        step = self.state.global_step + 1
        drawn = None if self._refill is None else self._draw(inputs, self._refill.rounds, step)
        if drawn is not None:
            inputs = [row for group in drawn.groups for row in group.rows]
            self._batch = drawn.groups
        self._sampled_rows = inputs
        try:
            output = super()._generate_and_score_completions(inputs)
        finally:
            self._batch = []
        rows, rewards_NK, judged_N, penalties_N = self._scored
        weighted_N = self._weighted(rewards_NK)
        trained = self._trained_rows(len(weighted_N), drawn)
        kept_rows = self._kept_rows(_values(weighted_N), trained, step)
        advantages_N = self._advantages(output["advantages"], rewards_NK, weighted_N, trained, kept_rows)
        if penalties_N is not None:
            advantages_N = torch.where(judged_N, advantages_N - penalties_N, advantages_N)
        first = self.accelerator.process_index * len(inputs)
        output["advantages"] = advantages_N[first : first + len(inputs)]
        if self.accelerator.is_main_process:
            of_kept = {row: advantages_N[row].item() for row in kept_rows}
            self._hand_out(step, rows, rewards_NK, of_kept, drawn)
        # TRL measures it, over all processes, as part of its importance sampling correction.
        differences = self._metrics["train"].get(LOGP_DIFFERENCE)
        if differences and self._sampler_options is not None:
            self._agreement.update(step, differences[-1])
            counts = count_out_of_bounds(
                output["old_per_token_logps"] - output["sampling_per_token_logps"],
                output["completion_mask"].bool(),
                self._sampler_options,
            )
            outside, all_ratios = self.accelerator.gather(counts[None]).sum(dim=0).tolist()
            self._metrics["train"][OUT_OF_BOUNDS].append(outside / max(all_ratios, 1))
        local = [row - first for row in kept_rows if first <= row < first + len(inputs)]
        fillers = self._fillers(local, len(inputs)) if drawn is not None else []
        if self._selection is not None or drawn is not None:
            output = keep_rows(output, [*local, *fillers], len(inputs))
            output["completion_mask"][len(local) :] = 0
            output["advantages"][len(local) :] = 0
            output["num_items_in_batch"] = self.accelerator.gather(output["completion_mask"].sum()).sum().clamp(min=1)
        if self._mean_over_group:
            tokens_N = output["completion_mask"][: len(local)].sum(dim=1) * judged_N[first:][local]
            group_size = self._selection.keep if self._selection else self.num_generations
            weights = group_token_weights(tokens_N, group_size, self.max_completion_length)
            output["advantages"][: len(local)] *= weights
        self._check_signal(step, judged_N, weighted_N, drawn)
        return output

    def _draw(self, inputs: Any, rounds: int, step: int) -> _Drawn:
        """Generate and score the step's prompts, and others for those without a signal."""
        rows: list[Row] = []
        rewards: list[Tensor] = []
        groups, spare = self._score(inputs, rows, rewards)
        needed = len(inputs) // self.num_generations
        dataset: Any = self.train_dataset
        ids = [str(name) for name in dataset.with_format(None)["sample_id"]]
        used = set(gather_object([str(row["sample_id"]) for row in inputs]))
        order = other_prompts(
            len(ids), [at for at, name in enumerate(ids) if name in used], seed=self.args.seed, step=step
        )
        processes, here = self.accelerator.num_processes, self.accelerator.process_index
        done = 0
        for done in range(1, rounds + 1):
            # All processes draw the same number, so that their collective operations meet.
            missing = max(gather_object([needed - len(groups)]))
            count = min(missing, len(order) // processes)
            if not count:
                done -= 1
                break
            mine = order[here * count : (here + 1) * count]
            order = order[processes * count :]
            others = [dict(row) for at in mine for row in [dataset[at]] for _ in range(self.num_generations)]
            more, without = self._score(others, rows, rewards)
            groups += more
            spare += without
        groups, missing = groups[:needed], needed - len(groups[:needed])
        groups += spare[:missing]
        total_missing = sum(gather_object([missing]))
        metrics = self._metrics["train"]
        metrics["refill/rounds"].append(done)
        metrics["refill/drawn"].append(sum(gather_object([len(rows)])) / self.num_generations)
        metrics["refill/missing"].append(total_missing)
        if total_missing and not self._said_missing and self.accelerator.is_main_process:
            self._said_missing = True
            logger.warning(
                "step %d: %d of %d groups all pass, all fail or all earn the same, and %d rounds of refill found no "
                "others; it trains on fewer. Later steps are counted in refill/missing",
                step, total_missing, needed * processes, done,
            )  # fmt: skip
        places = [here * len(rows) + group.first + at for group in groups for at in range(self.num_generations)]
        return _Drawn(
            groups,
            gather_object([group.has_signal for group in groups]),
            gather_object(rows),
            self.accelerator.gather(torch.cat(rewards)),
            gather_object(places),
        )

    def _score(
        self, inputs: list[dict[str, Any]], rows: list[Row], rewards: list[Tensor]
    ) -> tuple[list[Group], list[Group]]:
        """Groups of these prompts with a signal, and those without; their rollouts are added to `rows`, `rewards`."""
        prompts = [row["prompt"] for row in inputs]
        if inputs[0].get("image") is not None:
            prompts = [prepare_multimodal_messages(row["prompt"], images=[row["image"]]) for row in inputs]
        self._sampled_rows = inputs
        generated = self._generate(prompts)
        _, completion_ids, _, completions, _, extra, *_ = generated
        scored = [{**row, **{name: values[at] for name, values in extra.items()}} for at, row in enumerate(inputs)]
        self._calculate_rewards(scored, prompts, completions, completion_ids)
        passes = self._pending_extra_logs.pop(PASSES, None)
        self._pending_extra_logs.clear()  # columns of these rows alone would not fit the step's table
        first = self.accelerator.process_index * len(inputs)
        here = slice(first, first + len(inputs))
        local_NK = self._scored.rewards_NK[here]
        groups = split_groups(
            inputs, generated, local_NK, passes, self.num_generations,
            first=len(rows), rewards_of=self._compared,
        )  # fmt: skip
        rows += self._scored.rows[here]
        rewards.append(local_NK)
        return [group for group in groups if group.has_signal], [group for group in groups if not group.has_signal]

    def _compared(self, rewards_NK: Tensor) -> list[list[float | None]]:
        """Rewards that advantages are computed from: those of each function if decoupled, or else their sums."""
        if self.multi_objective_aggregation != "normalize_then_sum":
            return [_values(self._weighted(rewards_NK))]
        judged_NK = rewards_NK.cpu().double()
        judged_NK = judged_NK.masked_fill(judged_NK.isnan().any(dim=1, keepdim=True), math.nan)
        return [_values(column) for column in judged_NK.T]

    def _weighted(self, rewards_NK: Tensor) -> Tensor:
        """Weighted sums of the reward functions' values; NaN where one is missing."""
        weights_K = self.args.reward_weights or [1.0] * len(self.reward_func_names)
        return (rewards_NK.cpu().double() * torch.tensor(weights_K, dtype=torch.float64)).sum(dim=1)

    def _trained_rows(self, count: int, drawn: _Drawn | None) -> list[int]:
        """Rows of the groups that are trained on, of all processes."""
        if drawn is None:
            return list(range(count))
        return [row for row in range(count) if drawn.signals[row // self.num_generations]]

    def _kept_rows(self, rewards_N: list[float | None], trained: list[int], step: int) -> list[int]:
        """Rows to train on, of all processes, out of those of groups that are trained on."""
        if self._selection is None:
            return trained
        selected = select_rows(rewards_N, self.num_generations, self._selection, seed=self.args.seed, step=step)
        return sorted(set(selected) & set(trained))

    def _fillers(self, local: list[int], count: int) -> list[int]:
        """Rows that count for nothing and make the batch of this process divide into its passes."""
        passes = self.args.steps_per_generation or 1
        needed = max(-(-len(local) // passes), 1) * passes - len(local)
        return [row for row in range(count) if row not in set(local)][:needed]

    def _hand_out(
        self, step: int, rows: list[Row], rewards_NK: Tensor, advantages: dict[int, float], drawn: _Drawn | None
    ) -> None:
        """Pass the step's rollouts to the callback, with the advantages of those that it trains on."""
        if drawn is not None:
            rows, rewards_NK = drawn.rows, drawn.rewards_NK
            advantages = {drawn.places[row]: value for row, value in advantages.items()}
        sample_ids, responses, tokens = (list(column) for column in zip(*rows, strict=True))
        components = dict(zip(self.reward_func_names, map(_values, rewards_NK.T), strict=True))
        of_all = [advantages.get(row) for row in range(len(rows))]
        rewards = _values(self._weighted(rewards_NK))
        self._on_rollouts(StepRollouts(step, sample_ids, responses, tokens, rewards, of_all, components))

    def _check_signal(self, step: int, judged_N: Tensor, weighted_N: Tensor, drawn: _Drawn | None) -> None:
        """Stop a training whose steps have nothing to learn from.

        Raises:
            UserError: for several steps no rollout could be judged, or `refill` found no group with a signal.
        """
        passes = (self.args.steps_per_generation or 1) * self.num_iterations
        generations = math.ceil(self.state.max_steps * self.args.gradient_accumulation_steps / passes)
        self._unjudged.update(step, bool(judged_N.any()), generations)
        limit = min(PATIENCE, generations)
        groups_NG = weighted_N.view(-1, self.num_generations)
        differ = bool((groups_NG.nan_to_num(-math.inf).amax(dim=1) > groups_NG.nan_to_num(math.inf).amin(dim=1)).any())
        learns = differ if drawn is None else any(drawn.signals)
        self._idle_steps = 0 if learns else self._idle_steps + 1
        if self._idle_steps < limit:
            return
        if drawn is not None:
            raise UserError(
                f"no prompt is left: in the last {self._idle_steps} steps (up to step {step}) the rollouts of every "
                "prompt all pass, all fail or all earn the same, also of those that policy.algorithm.refill drew; name "
                "another criterion, or leave refill out"
            )
        if self._idle_steps == limit and self.accelerator.is_main_process:
            logger.warning(
                "in the last %d steps (up to step %d) all rollouts of every prompt earned the same reward: advantage "
                "0, nothing is learnt; look at the rubrics and the judge", self._idle_steps, step,
            )  # fmt: skip

    def _advantages(
        self, of_trl: Tensor, rewards_NK: Tensor, weighted_N: Tensor, trained: list[int], kept_rows: list[int]
    ) -> Tensor:
        """Advantages of all processes' rollouts; those that are not kept have any value.

        Args:
            of_trl: TRL's own, of this process.
            trained: rows of the groups that are trained on, which alone count.
            kept: those of them that selection keeps.
        """
        decoupled = self.multi_objective_aggregation == "normalize_then_sum"
        weights_K = self.reward_weights.to(rewards_NK)
        rows, size = trained, self.num_generations
        if self._selection is not None and self._selection.normalise == "kept":
            rows, size = kept_rows, self._selection.keep
        elif not decoupled and len(trained) == len(weighted_N):
            return self.accelerator.gather(of_trl)
        advantages_N = torch.zeros_like(rewards_NK[:, 0])
        if not rows:
            return advantages_N
        if decoupled:
            advantages_N[rows] = decoupled_advantages(rewards_NK[rows], weights_K, size)
        else:
            advantages_N[rows] = group_advantages(weighted_N[rows].to(rewards_NK), size, scale=self.scale_rewards)
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
        completion
        if isinstance(completion, str | Response)
        else "".join(completion_text([turn]) for turn in completion)
    )


def _values(rewards_N: Tensor) -> list[float | None]:
    return [None if math.isnan(reward) else reward for reward in rewards_N.tolist()]
