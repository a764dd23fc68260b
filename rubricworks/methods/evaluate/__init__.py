"""Evaluation by itself: any models on any samples, without a training."""
