"""LLaVA models: a vision tower, a projector, and a language model."""

PROJECTOR, VISION_TOWER = "multi_modal_projector", "vision_tower"
"""Modules by their name in the model."""
