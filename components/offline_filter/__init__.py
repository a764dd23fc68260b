from rubricworks.components.offline_filter.component import offline_filter

__all__ = ["offline_filter"]
