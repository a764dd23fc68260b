"""Scorecards to rewards: pure functions that own no client, trainer or file."""

from rubricworks.rewards.weighted import weighted_reward

__all__ = ["weighted_reward"]
