"""Pure functions of reinforcement learning on arrays: advantages, rollout selection, DiffusionNFT."""

from rubricworks.rl.advantages import group_advantages
from rubricworks.rl.decoupled import decoupled_advantages
from rubricworks.rl.diffusion_nft import diffusion_nft_loss, optimality_probability
from rubricworks.rl.prompt_tracker import prompt_advantages
from rubricworks.rl.selection import keep_prompt, select_rollouts

__all__ = [
    "decoupled_advantages",
    "diffusion_nft_loss",
    "group_advantages",
    "keep_prompt",
    "optimality_probability",
    "prompt_advantages",
    "select_rollouts",
]
