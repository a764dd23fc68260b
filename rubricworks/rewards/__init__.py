"""Scorecards to rewards: pure functions that own no client, trainer or file."""

from rubricworks.rewards.captions import CaptionScores, caption_scores
from rubricworks.rewards.hierarchical import hierarchical_reward
from rubricworks.rewards.length import length_gate, linear_length_penalty
from rubricworks.rewards.remapping import remap_group
from rubricworks.rewards.weighted import weighted_reward

__all__ = [
    "CaptionScores",
    "caption_scores",
    "hierarchical_reward",
    "length_gate",
    "linear_length_penalty",
    "remap_group",
    "weighted_reward",
]
