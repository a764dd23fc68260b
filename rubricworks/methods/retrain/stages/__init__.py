"""Steps of a retraining."""
