from rubricworks.components.outcome.component import outcome

__all__ = ["outcome"]
