"""Tokens and the audit log over HTTP."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.platform_api.services.access.principals import LONGEST_NAME, NAME_PATTERN

ScopeName = Literal["viewer", "runner", "approver", "admin"]


class TokenRequest(BaseModel):
    """A token to create."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=LONGEST_NAME, pattern=NAME_PATTERN, examples=["ci"])
    scope: ScopeName
    days: int = Field(default=90, ge=1, le=366, description="Days until it expires", examples=[90])


class TokenBody(BaseModel):
    """A token, without its secret."""

    model_config = ConfigDict(from_attributes=True)

    name: str = Field(examples=["ci"])
    scope: ScopeName
    created_at: datetime
    created_by: str = Field(examples=["ada"])
    expires_at: datetime = Field(examples=["2027-02-21T02:09:00Z"])
    revoked_at: datetime | None


class TokenPage(BaseModel):
    """A page of tokens, the newest first."""

    items: list[TokenBody]
    next_cursor: str | None


class NewToken(TokenBody):
    """A token with its secret, which is shown once."""

    secret: str = Field(examples=["rw_shown-once"])


class ChangeBody(BaseModel):
    """A change, as the audit log has it."""

    model_config = ConfigDict(from_attributes=True)

    id: int = Field(examples=[17])
    at: datetime
    who: str = Field(examples=["ada"])
    action: str = Field(examples=["token.create"])
    subject: str = Field(examples=["captioner/4"])
    details: dict[str, Any] = Field(examples=[{"champion": 3}])


class ChangePage(BaseModel):
    """A page of the audit log, the newest first."""

    items: list[ChangeBody]
    next_cursor: str | None


class Caller(BaseModel):
    """The caller and its rights."""

    name: str = Field(examples=["ada"])
    scope: ScopeName
