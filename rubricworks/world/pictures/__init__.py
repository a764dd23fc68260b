"""Pictures: the scene world's part for text-to-image, with prompts, drawings, and a detector that knows the truth."""
