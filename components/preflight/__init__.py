from rubricworks.components.preflight.component import preflight

__all__ = ["preflight"]
