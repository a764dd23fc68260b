"""Scenes: rendering, captions, caption parsing, questions, and export with ground truth."""
