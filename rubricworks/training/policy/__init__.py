"""Policy RL with GRPO: the trainer, its rollouts, their selection, and what watches a training."""
