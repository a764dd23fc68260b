"""Routes whose answers carry an ETag: who has an answer already, and sends its tag, gets 304 while it is the same.

The tag is the digest of the bytes that are about to be sent, so it never tells of an answer that has changed; a route
that knows a digest of its own sets it. Streams, pages and secrets have none.
"""

import hashlib
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Header, Request, Response
from fastapi.routing import APIRoute

_UNCHANGED = {304: {"description": "It is the same as what `If-None-Match` tells of"}}
_HEADERS = ("etag", "cache-control")


async def _describe_tag(
    known: Annotated[
        str | None, Header(alias="If-None-Match", max_length=1000, description="ETag of an answer")
    ] = None,
) -> None:
    """Name the header in the description of the API."""


class TaggedRoute(APIRoute):
    """A route whose GET answers 304 to who has its answer already."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if "GET" in (options.get("methods") or ()) and options.get("include_in_schema", True):
            options["dependencies"] = [Depends(_describe_tag), *(options.get("dependencies") or ())]
            options["responses"] = _UNCHANGED | (options.get("responses") or {})
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with tags."""
        handle = super().get_route_handler()

        async def handle_tagged(request: Request) -> Response:
            answer = await handle(request)
            return _tagged(request, answer) if request.method == "GET" else answer

        return handle_tagged


def _tagged(request: Request, answer: Response) -> Response:
    """The answer with its tag, or 304 if the caller has it."""
    body = getattr(answer, "body", None)  # a stream has none
    if answer.status_code != 200 or body is None or answer.headers.get("cache-control") == "no-store":
        return answer
    answer.headers.setdefault("ETag", f'"{hashlib.sha256(body).hexdigest()[:32]}"')
    answer.headers.setdefault("Cache-Control", "private, no-cache")
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if answer.headers["etag"] not in known and known != ["*"]:
        return answer
    return Response(status_code=304, headers={name: answer.headers[name] for name in _HEADERS})
