from rubricworks.components.train_balcaprl.component import train_balcaprl

__all__ = ["train_balcaprl"]
