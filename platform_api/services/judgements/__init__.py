"""Judgements of people and judges: labels, blind choices, requests and responses of judges."""
