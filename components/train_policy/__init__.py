from rubricworks.components.train_policy.component import train_policy

__all__ = ["train_policy"]
