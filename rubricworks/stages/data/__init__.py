"""Data stages: sources of images or questions to tables of samples."""
