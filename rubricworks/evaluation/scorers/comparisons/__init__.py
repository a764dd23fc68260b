"""Scorers that compare the responses of several models: pairs, ranks, tournaments."""
