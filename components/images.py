"""The container images that components run in, built by `make images`. Locally a stage runs in the caller's Python."""

from rubricworks import __version__
from rubricworks.runtime.stage_table import STAGES

CPU = f"rubricworks/cpu:{__version__}"
"""Stages that only read tables and call endpoints."""

TRAINER = f"rubricworks/trainer:{__version__}"
"""Stages that load a model: torch, transformers, TRL."""

VLLM = f"rubricworks/vllm:{__version__}"
"""Servers of judges, teachers and rollouts, made by what runs on several pods."""

API = f"rubricworks/api:{__version__}"
"""The HTTP service."""


def image_of(stage: str) -> str:
    """The image that a stage runs in, by the stage table."""
    return {"cpu": CPU, "trainer": TRAINER}[STAGES[stage].image]
