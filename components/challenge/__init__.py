from rubricworks.components.challenge.component import challenge

__all__ = ["challenge"]
