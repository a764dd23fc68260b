from rubricworks.components.train_rlr3.component import train_rlr3

__all__ = ["train_rlr3"]
