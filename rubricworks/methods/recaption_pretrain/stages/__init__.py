"""Stages that only the recaptioning method has."""
