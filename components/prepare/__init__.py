from rubricworks.components.prepare.component import prepare

__all__ = ["prepare"]
