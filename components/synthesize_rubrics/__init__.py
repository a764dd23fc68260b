from rubricworks.components.synthesize_rubrics.component import synthesize_rubrics

__all__ = ["synthesize_rubrics"]
