from rubricworks.components.write_exams.component import write_exams

__all__ = ["write_exams"]
