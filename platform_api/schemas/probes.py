"""Answers of the probes."""

from typing import Literal

from pydantic import BaseModel, Field

from rubricworks.platform_api.schemas.promotions import DriftBody


class Alive(BaseModel):
    """A process that answers."""

    status: Literal["alive"] = "alive"


class CheckBody(BaseModel):
    """State of a dependency."""

    status: Literal["ok", "failed"]
    detail: str = Field(default="", description="For callers with a token", examples=["postgresql answers"])


class Readiness(BaseModel):
    """State of the dependencies."""

    status: Literal["ready", "not ready"]
    checks: dict[str, CheckBody] = Field(examples=[{"database": {"status": "ok", "detail": "postgresql answers"}}])
    drift: list[DriftBody] = Field(default=[], description="For callers with a token; it takes no pod away")


class Version(BaseModel):
    """What runs."""

    name: Literal["rubricworks"] = "rubricworks"
    version: str = Field(examples=["0.4.0"])
    revision: str = Field(description="Of git; empty if it is not known", examples=["67fcc6d"])
