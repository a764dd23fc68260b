"""RubricRL: text-to-image generators trained on rubrics that are written from their prompts."""
