"""Scheduled retraining: new samples, a challenger by the champion's own recipe, and the gate between them."""
