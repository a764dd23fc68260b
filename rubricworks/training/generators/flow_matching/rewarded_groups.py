"""Groups of images that a flow-matching generator draws, their rewards and advantages.

A group is of one prompt. Groups that teach nothing, since all their images have the same reward, may be replaced by
groups of other prompts (`policy.algorithm.refill`). The processes of a training share the groups, and each then has
them all. An image's noise is drawn from a seed of its own, so that it does not depend on their number.
"""

import asyncio
import math
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rubricworks.rl import prompt_advantages
from rubricworks.rubrics import Response
from rubricworks.training.config import RefillOptions
from rubricworks.training.generators.config import DiffusionNftConfig
from rubricworks.training.generators.flow_matching.generator import FlowGenerator
from rubricworks.training.generators.flow_matching.velocity_forms import VelocityForms
from rubricworks.training.generators.image_tokenizer import pixels_of
from rubricworks.training.generators.policy import image_responses
from rubricworks.training.policy.grpo import Reward
from rubricworks.training.policy.refill import PASSES, check_reward_passes, has_signal, other_prompts
from rubricworks.training.policy.selection import select_rows
from rubricworks.training.processes import gather, process_count, process_index
from rubricworks.training.progress import StepTimes


class RewardedGroups(NamedTuple):
    """Groups of images and their rewards, one group per sample."""

    samples: list[Mapping[str, Any]]
    latents: Tensor
    levels: Tensor
    """Noise levels of the sampling."""
    responses: list[Response]
    rewards: list[float | None]
    components: dict[str, list[float | None]]
    """Reward function → its values."""
    passes: list[bool | None] | None
    """Passes of the criterion that `policy.algorithm.refill` names."""
    processes: list[int]
    """Process that drew each group."""

    def joined(self, more: "RewardedGroups") -> "RewardedGroups":
        """These groups, then `more`."""
        return RewardedGroups(
            self.samples + more.samples,
            torch.cat([self.latents, more.latents]),
            self.levels,
            self.responses + more.responses,
            self.rewards + more.rewards,
            {name: values + more.components[name] for name, values in self.components.items()},
            None if self.passes is None or more.passes is None else self.passes + more.passes,
            self.processes + more.processes,
        )


class GroupDraws:
    """Context manager that draws groups of images with the sampling policy of a flow-matching generator, and computes
    their rewards.
    """

    def __init__(
        self,
        generator: FlowGenerator,
        forms: VelocityForms,
        rewards: Sequence[Reward],
        config: DiffusionNftConfig,
        *,
        seed: int,
        autocast: Callable[[], AbstractContextManager[Any]],
        times: StepTimes,
    ) -> None:
        self.generator, self.forms, self.rewards, self.config = generator, forms, list(rewards), config
        self.seed, self.autocast, self.times = seed, autocast, times
        if config.refill is not None:
            check_reward_passes(self.rewards, config.refill.criterion)
        self._loop = asyncio.Runner()

    def __enter__(self) -> "GroupDraws":
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.close()

    def draw(self, samples: Sequence[Mapping[str, Any]], dice: random.Random) -> RewardedGroups:
        """Draw a group of images per sample and have them rewarded.

        Args:
            samples: the same in each process, which draws its share of them.
            dice: source of the images' seeds, in the same state in each process.
        """
        group, count, here = self.config.rollouts.group_size, process_count(), process_index()
        seeds = [dice.getrandbits(62) for _ in range(len(samples) * group)]
        first, end = here * len(samples) // count, (here + 1) * len(samples) // count
        own = self._draw_own(samples[first:end], seeds[first * group : end * group]) if end > first else None
        return reduce(RewardedGroups.joined, [drawn for drawn in gather([own]) if drawn is not None])

    def _draw_own(self, samples: Sequence[Mapping[str, Any]], seeds: list[int]) -> RewardedGroups:
        rows = [sample for sample in samples for _ in range(self.config.rollouts.group_size)]
        prompts = [row["prompt"] for row in rows]
        size = self.config.optimizer.rows_per_pass or len(rows)
        chunks, responses = [], []
        self.forms.eval()
        with self.times.part("sampler"), self.forms.sampling(), self.autocast():
            for start in range(0, len(rows), size):
                part = slice(start, start + size)
                draws = [torch.Generator().manual_seed(seed) for seed in seeds[part]]
                guidance = self.config.rollouts.guidance
                chunks.append(self.generator.sample(prompts[part], guidance=guidance, generator=draws))
                responses += image_responses(pixels_of(self.generator.decode(chunks[-1].latents)))
        latents = torch.cat([chunk.latents for chunk in chunks])
        if process_count() > 1:
            latents = latents.cpu()
        rewards = self._reward(rows, prompts, responses)
        processes = [process_index()] * len(samples)
        return RewardedGroups(list(samples), latents, chunks[0].levels.cpu(), responses, *rewards, processes)

    def refill(
        self,
        drawn: RewardedGroups,
        dataset: Sequence[Mapping[str, Any]],
        options: RefillOptions,
        step: int,
        dice: random.Random,
    ) -> tuple[RewardedGroups, list[int]]:
        """Draw other prompts for those without a signal; all that was drawn, and the groups to train on."""
        needed, trained = len(drawn.samples), self._with_signal(drawn, 0)
        used = {sample["sample_id"] for sample in drawn.samples}
        taken = [at for at, sample in enumerate(dataset) if sample["sample_id"] in used]
        order = other_prompts(len(dataset), taken, seed=self.seed, step=step)
        for _ in range(options.rounds):
            chosen, order = order[: needed - len(trained)], order[needed - len(trained) :]
            if not chosen:
                break
            more = self.draw([dataset[at] for at in chosen], dice)
            first = len(drawn.samples)
            drawn = drawn.joined(more)
            trained += self._with_signal(more, first)
        return drawn, trained

    def _with_signal(self, drawn: RewardedGroups, first: int) -> list[int]:
        """Numbers of the groups that are worth training on, counted from `first`."""
        signals = []
        for start in range(0, len(drawn.rewards), self.config.rollouts.group_size):
            part = slice(start, start + self.config.rollouts.group_size)
            signals.append(has_signal(drawn.rewards[part], drawn.passes and drawn.passes[part]))
        return [first + at for at, signal in enumerate(signals) if signal]

    def _reward(
        self, rows: Sequence[Mapping[str, Any]], prompts: list[str], responses: list[Response]
    ) -> tuple[list[float | None], dict[str, list[float | None]], list[bool | None] | None]:
        """Summed rewards, those of each function, and passes; a rollout that one cannot judge has no reward."""
        columns = {name: [row[name] for row in rows] for name in rows[0] if name != "prompt"}
        logged: dict[str, list[Any]] = {}

        async def ask() -> list[Sequence[float | None]]:
            return await asyncio.gather(
                *(
                    reward(prompts=prompts, completions=responses, log_extra=logged.__setitem__, **columns)
                    for reward in self.rewards
                )
            )

        with self.times.part("judge"):
            values = self._loop.run(ask())
        total = [
            None if None in each else sum(value for value in each if value is not None)
            for each in zip(*values, strict=True)
        ]
        names = [getattr(reward, "__name__", type(reward).__name__) for reward in self.rewards]
        components = {name: list(of_one) for name, of_one in zip(names, values, strict=True)}
        return total, components, logged.get(PASSES)


def group_advantages(
    rewards: Sequence[float | None], trained: Sequence[int], config: DiffusionNftConfig, step: int, *, seed: int
) -> list[float | None]:
    """Advantages of the rows that are trained on and kept (`policy.algorithm.selection`), None for the others.

    Args:
        rewards: whole groups of rows.
        trained: rows of the groups to train on.
    """
    group, selection = config.rollouts.group_size, config.selection
    of_trained = [rewards[row] for row in trained]
    numbers = list(range(len(trained)))
    if selection is not None:
        numbers = select_rows(of_trained, group, selection, seed=seed, step=step)
    counted = numbers if selection is not None and selection.normalise == "kept" else list(range(len(trained)))
    values = prompt_advantages(
        torch.tensor([_number(of_trained[at]) for at in counted], dtype=torch.float64),
        [at // group for at in counted],
        global_std=config.advantages == "batch",
    )
    by_place = dict(zip(counted, values.tolist(), strict=True))
    advantages: list[float | None] = [None] * len(rewards)
    for at in numbers:
        advantages[trained[at]] = by_place[at]
    return advantages


def _number(reward: float | None) -> float:
    return math.nan if reward is None else reward
