from rubricworks.components.audit.component import audit

__all__ = ["audit"]
