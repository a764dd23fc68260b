from rubricworks.components.find_new_samples.component import find_new_samples

__all__ = ["find_new_samples"]
