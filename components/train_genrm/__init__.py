from rubricworks.components.train_genrm.component import train_genrm

__all__ = ["train_genrm"]
