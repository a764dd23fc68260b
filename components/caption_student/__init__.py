from rubricworks.components.caption_student.component import caption_student

__all__ = ["caption_student"]
