"""Promotions and the probes over HTTP."""

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict, Field

from rubricworks.platform_api.schemas.bodies import Body, RequestBody
from rubricworks.tracking.gate import GateFinding

PromotionState = Literal["requested", "rejected", "applying", "applied", "confirmed", "failed"]


class PromotionRequest(RequestBody):
    """A version that should become the champion."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model: str = Field(min_length=1, max_length=200, examples=["captioner"])
    version: int = Field(ge=1, lt=1 << 31, examples=[4])
    reason: str = Field(default="", max_length=2000, examples=["better on held-out scenes"])


class RollbackRequest(RequestBody):
    """A model whose previous champion becomes champion again."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model: str = Field(min_length=1, max_length=200, examples=["captioner"])
    champion: int = Field(
        ge=1,
        lt=1 << 31,
        description="The champion that is rolled back; if another one is it, nothing changes (409)",
        examples=[4],
    )
    reason: str = Field(min_length=1, max_length=2000, examples=["captions stutter"])


class Decision(RequestBody):
    """Reason of a decision."""

    reason: str = Field(default="", max_length=2000, examples=["checked 20 groups by hand"])


class Rejection(Body):
    """Reason of a rejection, which the requester is owed."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    reason: str = Field(min_length=1, max_length=2000, examples=["names objects that are not there"])


class ChallengerBody(Body):
    """The version that was last measured against the champion."""

    version: int = Field(examples=[4])
    digest: str = Field(examples=["3f5a9c"])
    gate: str = Field(examples=["better by 0.1 [0.05, 0.15]"])
    waits: bool = Field(
        description="It passed its gate against the champion of today, and a person has to decide", examples=[True]
    )
    findings: list[GateFinding] = Field(description="What each rule of its gate found")


class ModelBody(Body):
    """Aliases of a registered model."""

    model_config = ConfigDict(from_attributes=True, protected_namespaces=())

    model: str = Field(examples=["captioner"])
    champion: int | None = Field(examples=[3])
    previous: int | None = Field(examples=[2])
    challenger: ChallengerBody | None
    newest: ChallengerBody | None = Field(
        default=None, description="The newest version, where it is newer than both: as a rule its gate failed"
    )


class PromotionBody(Body):
    """A promotion."""

    model_config = ConfigDict(from_attributes=True, protected_namespaces=())

    id: int = Field(examples=[7])
    model: str = Field(examples=["captioner"])
    version: int = Field(examples=[4])
    digest: str = Field(description="Digest of its files; empty if it was registered without one", examples=["3f5a9c"])
    kind: Literal["promotion", "rollback"]
    champion: int | None = Field(description="The champion when it was requested", examples=[3])
    gate: str = Field(examples=["better by 0.1 [0.05, 0.15]"])
    findings: list[GateFinding] = Field(description="What each rule of the gate found")
    reason: str = Field(examples=["better on held-out scenes"])
    state: PromotionState = Field(examples=["applied"])
    requested_by: str = Field(examples=["ada"])
    requested_at: datetime
    decided_by: str | None = Field(examples=["grace"])
    decided_at: datetime | None = Field(examples=["2026-11-23T09:30:00Z"])
    decision: str = Field(examples=["checked 20 groups by hand"])
    confirmed_by: str | None
    confirmed_at: datetime | None


class DriftBody(Body):
    """A difference between the registry's alias, the last promotion and the consumer."""

    model: str = Field(description="Empty for all models", examples=["captioner"])
    kind: Literal["alias", "consumer", "registry"]
    text: str = Field(examples=["the consumer serves version 3, and version 4 is the champion"])


class Alive(Body):
    """A process that answers."""

    status: Literal["alive"] = "alive"


class CheckBody(Body):
    """State of a dependency."""

    status: Literal["ok", "failed"]
    detail: str = Field(default="", description="For callers with a token", examples=["postgresql answers"])


class Readiness(Body):
    """State of the dependencies."""

    status: Literal["ready", "not ready"]
    checks: dict[str, CheckBody] = Field(examples=[{"database": {"status": "ok", "detail": "postgresql answers"}}])
    drift: list[DriftBody] = Field(default=[], description="For callers with a token; it takes no pod away")


class Version(Body):
    """Version of the running server."""

    name: Literal["rubricworks"] = "rubricworks"
    version: str = Field(examples=["0.4.0"])
    revision: str = Field(description="Of git; empty if it is not known", examples=["67fcc6d"])
