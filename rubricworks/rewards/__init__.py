"""Rewards from scorecards: pure functions without client, trainer or file."""

from rubricworks.rewards.captions import CaptionScores, caption_scores, length_gate, linear_length_penalty
from rubricworks.rewards.format_mask import format_mask
from rubricworks.rewards.groups import group_rewards
from rubricworks.rewards.hierarchical import hierarchical_reward, remap_group
from rubricworks.rewards.noise import NoiseRates, corrected_credit, noise_corrected_reward
from rubricworks.rewards.weighted import signed_reward, weighted_reward

__all__ = [
    "caption_scores",
    "CaptionScores",
    "corrected_credit",
    "format_mask",
    "group_rewards",
    "hierarchical_reward",
    "length_gate",
    "linear_length_penalty",
    "noise_corrected_reward",
    "NoiseRates",
    "remap_group",
    "signed_reward",
    "weighted_reward",
]
