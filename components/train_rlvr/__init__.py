from rubricworks.components.train_rlvr.component import train_rlvr

__all__ = ["train_rlvr"]
