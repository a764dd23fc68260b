from rubricworks.components.promote.component import promote

__all__ = ["promote"]
