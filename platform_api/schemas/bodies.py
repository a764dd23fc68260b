"""Bases of the bodies: answers, which are also what pages draw, requests, and a page of a list."""

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")
JsonObject = dict[str, Any]
"""A JSON object with fields of others, stored or passed on unchanged."""


class Body(BaseModel):
    """An answer, or a part of one; it is made of values or of the attributes of a row."""

    model_config = ConfigDict(from_attributes=True)


class RequestBody(BaseModel):
    """A request; a field that it does not have is a mistake."""

    model_config = ConfigDict(extra="forbid")


class Page(Body, Generic[T]):
    """A page of a list."""

    items: list[T]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last one")
