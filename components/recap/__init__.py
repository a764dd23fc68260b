from rubricworks.components.recap.component import recap

__all__ = ["recap"]
