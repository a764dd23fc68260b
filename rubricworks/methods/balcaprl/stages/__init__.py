"""Stages that only BalCapRL has."""
