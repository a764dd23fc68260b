from rubricworks.components.prepare_questions.component import prepare_questions

__all__ = ["prepare_questions"]
