"""Pure functions of reinforcement learning on arrays: advantages, rollout selection, DiffusionNFT."""

from rubricworks.rl.advantages import decoupled_advantages, group_advantages, prompt_advantages
from rubricworks.rl.diffusion_nft import diffusion_nft_loss, optimality_probability
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
