from rubricworks.components.check_accelerators.component import check_accelerators

__all__ = ["check_accelerators"]
