"""Grading of generated images: checks, the prompt of the judge, text in the image, and scores by endpoints."""
