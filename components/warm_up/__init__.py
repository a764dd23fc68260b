from rubricworks.components.warm_up.component import warm_up

__all__ = ["warm_up"]
