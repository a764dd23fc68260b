"""DiffusionNFT's step beside the same step written directly in diffusers.

`python -m benchmarks.diffusion_step [--steps N]`. Both sample a group per prompt with the laptop's flow-matching
generator (random weights), take rewards that cost nothing, and fit all weights at three noise levels; the direct one
has no tables, checkpoints, statistics or images encoded as PNG. The steps come in turn in one process, timed by its CPU
time, and the medians are compared; peak memory is that of a process each. Target: at most 5 % more.
"""

import argparse
import copy
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rubricworks.training.generators.config import (
    DiffusionNftConfig,
    DiffusionNftOptimizer,
    DiffusionRollouts,
    TinyFlowConfig,
)
from rubricworks.training.generators.flow_matching.diffusion_policy import DiffusionPolicyTrainer
from rubricworks.training.generators.flow_matching.pixel_flow import PixelFlow
from rubricworks.training.generators.flow_matching.tiny_flow import pretrain_tiny_flow
from rubricworks.world.pictures.prompts import pairs

_PROMPTS, _GROUP, _LEVELS, _BETA, _CLIP, _RATE = 12, 8, 3, 0.3, 2.0, 3e-4
_TARGET = 5.0


def generator(folder: Path) -> PixelFlow:
    """A generator with as good as random weights."""
    captions = [pair.caption for pair in pairs(1, 96)]
    images = np.zeros((96, 36, 36, 3), dtype=np.uint8)
    return PixelFlow.load(pretrain_tiny_flow(captions, images, folder, TinyFlowConfig(steps=1, max_prompt_tokens=24)))


def our_step(flow: PixelFlow, prompts: list[str], folder: Path) -> Callable[[], None]:
    async def constant(prompts: Any, completions: Any, **_: Any) -> list[float]:
        return [float(at % 2) for at in range(len(completions))]

    rows = [{"sample_id": str(at), "prompt": prompt} for at, prompt in enumerate(prompts)]
    config = DiffusionNftConfig(
        steps=1,
        rollouts=DiffusionRollouts(group_size=_GROUP, prompts_per_step=_PROMPTS),
        optimizer=DiffusionNftOptimizer(learning_rate=_RATE, weight_decay=0.0),
        beta=_BETA,
        clip=_CLIP,
        kl_weight=0.0,
        levels="stratified",
        levels_per_image=_LEVELS,
        decay_rate=0.5,
        ema_decay=None,
    )
    trainer = DiffusionPolicyTrainer(
        flow, [constant], rows, config, seed=0, out_dir=folder, on_rollouts=lambda step: None
    )
    trainer.create_optimizer()

    def step() -> None:
        trainer.training_step(trainer.model, rows)
        torch.nn.utils.clip_grad_norm_(trainer.forms.transformer.parameters(), 1.0)
        trainer.optimizer.step()
        trainer.optimizer.zero_grad()
        trainer.forms.blend(0.5)

    return step


def direct_step(flow: PixelFlow, prompts: list[str]) -> Callable[[], None]:
    model: Any = flow.transformer.requires_grad_(True)
    old: Any = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=0.0, fused=True)
    every = [prompt for prompt in prompts for _ in range(_GROUP)]
    count, shapes = len(every), [[(1, 3, 3)]] * len(every)

    def image(module: Any, x: torch.Tensor, t: torch.Tensor, texts: dict[str, torch.Tensor]) -> torch.Tensor:
        answer: torch.Tensor = module(hidden_states=x, timestep=t, img_shapes=shapes, return_dict=False, **texts)[0]
        return answer

    def step() -> None:
        levels = torch.linspace(1, 0, 9)
        levels = 3 * levels / (1 + 2 * levels)
        with torch.no_grad():
            texts = flow.encode_prompts(every)
            x = torch.randn(count, 9, 432)
            for level, following in pairwise(levels):
                v = (x - image(old, x, level.expand(count), texts)) / level
                x = x + (following - level) * v
        rewards = (torch.arange(count) % 2).float().view(-1, _GROUP)
        advantages = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, correction=0, keepdim=True) + 1e-4)
        r = (0.5 + 0.5 * (advantages.flatten() / _CLIP).clamp(-1, 1)).clamp(0, 1)
        for stratum in range(_LEVELS):
            t = ((stratum + torch.rand(count)) / _LEVELS).sqrt()
            at = t[:, None, None]
            x_t = (1 - at) * x + at * torch.randn_like(x)
            with torch.no_grad():
                v_old = (x_t - image(old, x_t, t, texts)) / at
            v = (x_t - image(model, x_t, t, texts)) / at
            errors = []
            for sign in (1, -1):
                error = x_t - at * ((1 - sign * _BETA) * v_old + sign * _BETA * v) - x
                weight = error.detach().abs().mean(dim=(1, 2)).clamp(min=1e-5)
                errors.append(error.square().mean(dim=(1, 2)) / weight)
            ((_CLIP / _BETA) * (r * errors[0] + (1 - r) * errors[1]).mean() / _LEVELS).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for parameter, other in zip(old.parameters(), model.parameters(), strict=True):
                parameter.lerp_(other, 0.5)

    return step


def steps(folder: Path) -> dict[str, Callable[[], None]]:
    """Both steps, each with a generator of its own."""
    prompts = [pair.caption for pair in pairs(1, _PROMPTS)]
    return {
        "rubricworks": our_step(generator(folder / "g"), prompts, folder / "run"),
        "diffusers": direct_step(generator(folder / "g"), prompts),
    }


def peak_memory(name: str) -> float:
    """Peak memory of a process that does three of the steps, in MiB."""
    command = [sys.executable, "-m", "benchmarks.diffusion_step", "--memory-of", name]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(output.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--memory-of", choices=["rubricworks", "diffusers"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        both = steps(Path(folder))
        if options.memory_of:
            for _ in range(3):
                both[options.memory_of]()
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            return
        took: dict[str, list[float]] = {name: [] for name in both}
        for at in range(options.steps + 1):
            for name, step in both.items():
                start = time.process_time()
                step()
                if at:
                    took[name].append(time.process_time() - start)
    medians = {name: statistics.median(values) for name, values in took.items()}
    memory = {name: peak_memory(name) for name in both}
    for name in both:
        print(f"{name:12} {medians[name]:.2f} s of CPU a step, peak {memory[name]:.0f} MiB")
    for what, values in (("time", medians), ("memory", memory)):
        more = 100 * (values["rubricworks"] / values["diffusers"] - 1)
        print(f"{what}: {more:+.1f} % (target: at most {_TARGET:.0f} % more)")


if __name__ == "__main__":
    main()
