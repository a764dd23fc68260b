from rubricworks.components.caption_committee.component import caption_committee

__all__ = ["caption_committee"]
