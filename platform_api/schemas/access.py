"""Tokens, the audit log and the caller over HTTP."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from rubricworks.platform_api.schemas.bodies import Body, JsonObject, RequestBody
from rubricworks.platform_api.services.access.principals import LONGEST_NAME, NAME_PATTERN

ScopeName = Literal["viewer", "runner", "approver", "admin"]


class TokenRequest(RequestBody):
    """A token to create."""

    name: str = Field(min_length=1, max_length=LONGEST_NAME, pattern=NAME_PATTERN, examples=["ci"])
    scope: ScopeName
    days: int = Field(default=90, ge=1, le=366, description="Days until it expires", examples=[90])


class TokenBody(Body):
    """A token, without its secret."""

    name: str = Field(examples=["ci"])
    scope: ScopeName
    created_at: datetime
    created_by: str = Field(examples=["ada"])
    expires_at: datetime = Field(examples=["2027-02-21T02:09:00Z"])
    revoked_at: datetime | None


class NewToken(TokenBody):
    """A token with its secret, which is shown once."""

    secret: str = Field(examples=["rw_shown-once"])


class SessionBody(Body):
    """A person's session."""

    person: str = Field(examples=["ada@example.org"])
    groups: list[str] = Field(description="The person's groups that have a role", examples=[["captions"]])
    opened_at: datetime
    expires_at: datetime


class EndedSessions(Body):
    """Sessions that were ended."""

    person: str = Field(examples=["ada@example.org"])
    sessions: int = Field(examples=[2])


class ChangeBody(Body):
    """A change, as the audit log has it."""

    id: int = Field(examples=[17])
    at: datetime
    who: str = Field(examples=["ada"])
    action: str = Field(examples=["token.create"])
    subject: str = Field(examples=["captioner/4"])
    details: JsonObject = Field(examples=[{"champion": 3}])


class Caller(Body):
    """The caller and its rights."""

    name: str = Field(examples=["ada"])
    scope: str = Field(description="A scope, or several joined by `+`", examples=["runner"])
    project: str | None = Field(description="The installation's project, if it has one", examples=["captions"])
