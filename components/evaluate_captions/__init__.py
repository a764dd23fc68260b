from rubricworks.components.evaluate_captions.component import evaluate_captions

__all__ = ["evaluate_captions"]
