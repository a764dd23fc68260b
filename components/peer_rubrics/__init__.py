from rubricworks.components.peer_rubrics.component import peer_rubrics

__all__ = ["peer_rubrics"]
