"""Reward functions for trainers: TRL (`rubricworks.adapters.trl`), verl, and user-defined functions."""
