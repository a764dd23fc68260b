from rubricworks.components.evaluate_answers.component import evaluate_answers

__all__ = ["evaluate_answers"]
