from rubricworks.components.open_questions.component import open_questions

__all__ = ["open_questions"]
