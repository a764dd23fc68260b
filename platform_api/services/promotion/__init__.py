"""Promotions from the request to the consumer that serves the model."""
