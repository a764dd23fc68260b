"""Reinforcement learning's pure parts: advantages. Arrays in, arrays out."""

from rubricworks.rl.advantages import group_advantages

__all__ = ["group_advantages"]
