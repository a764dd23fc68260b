"""Scheduled retraining: find new samples, train a challenger by the champion's recipe, and gate it."""
