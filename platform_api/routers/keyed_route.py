"""Routes whose GETs carry an ETag and whose POSTs take an idempotency key.

GET returns 304 when `If-None-Match` has the tag of the answer. The tag is the digest of the bytes that are about to be
sent, so it never tells of an answer that has changed; a route that knows a digest of its own sets it. Streams, pages
and secrets have none. A POST sent again changes nothing again and gets the same answer.

A program sends the key as a header, a page's form as the field that `once()` draws into it. The route writes in the
request's session (`SessionOf`), in which its answer is stored too, so that one commit makes both.
"""

import contextlib
import hashlib
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import Depends, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from sqlalchemy.exc import SQLAlchemyError

from rubricworks.platform_api.access import is_open
from rubricworks.platform_api.problems import BadRequest
from rubricworks.platform_api.routers.dependencies import IdempotencyKey, get_session
from rubricworks.platform_api.services.access.idempotency import Answer, Keyed, request_digest

HEADER = "Idempotency-Key"
KEY_FIELD = "idempotency_key"
"""Field of a form's idempotency key."""
_LONGEST_FIELD = 10_000
_KEY = re.compile(r"[!-~]{8,200}")
_UNCHANGED = {304: {"description": "It is the same as what `If-None-Match` tells of"}}
_HEADERS = ("etag", "cache-control")


async def form_fields(request: Request) -> dict[str, str]:
    """Fields of an urlencoded form, trimmed; the first value of each.

    Raises:
        BadRequest: it has thousands of fields.
    """
    try:
        sent = parse_qs((await request.body()).decode(errors="replace"), max_num_fields=2_000)
    except ValueError as error:
        raise BadRequest("the form has too many fields") from error
    return {name: values[0].strip()[:_LONGEST_FIELD] for name, values in sent.items()}


def whole_number(fields: Mapping[str, str], name: str) -> int:
    """Number in a field of a form.

    Raises:
        BadRequest: it is none.
    """
    text = fields.get(name, "")
    if not text.isdecimal() or len(text) > 9:
        raise BadRequest(f"{name}: {text[:20]!r} is no number")
    return int(text)


async def _describe_tag(
    known: Annotated[
        str | None, Header(alias="If-None-Match", max_length=1000, description="ETag of an answer")
    ] = None,
) -> None:
    """Name the header in the description of the API."""


async def _describe_key(key: IdempotencyKey) -> None:
    """Name the header in the description of the API."""


class KeyedRoute(APIRoute):
    """A route that answers 304 to who has its answer already, and a repeated POST by what it answered before."""

    _key_place = ("header", HEADER)
    _key_missing = "a key of 8 to 200 visible ASCII characters is needed, a new one for each change"

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if "POST" in (options.get("methods") or ()):
            options["dependencies"] = [
                *([Depends(_describe_key)] if options.get("include_in_schema", True) else []),
                Depends(get_session, scope="function"),
                *(options.get("dependencies") or ()),
            ]
        if "GET" in (options.get("methods") or ()) and options.get("include_in_schema", True):
            options["dependencies"] = [Depends(_describe_tag), *(options.get("dependencies") or ())]
            options["responses"] = _UNCHANGED | (options.get("responses") or {})
        super().__init__(path, endpoint, **options)

    @staticmethod
    async def key_of(request: Request) -> str | None:
        """The key of a request, if it has a valid one."""
        key = request.headers.get(HEADER, "")
        return key if _KEY.fullmatch(key) else None

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with tags and behind the key."""
        handle = super().get_route_handler()

        async def handle_once(request: Request) -> Response:
            if request.method != "POST":
                answer = await handle(request)
                return _tagged(request, answer) if request.method == "GET" else answer
            key, principal = await self.key_of(request), request.state.principal
            if key is None:
                missing = {"type": "missing", "loc": self._key_place, "msg": self._key_missing}
                raise RequestValidationError([missing])
            if is_open(request.url.path):  # to log in or out again under one key has the effect of once
                return await handle(request)
            database = request.app.state.database
            target = f"{request.url.path}?{request.url.query}"
            keyed = Keyed(principal, key, request_digest(request.method, target, await request.body()))
            if (known := await keyed.claim(database)) is not None:
                return _replay(known)
            request.state.request_name, request.state.is_resumed = keyed.name, keyed.is_resumed
            async with keyed.renewed(database):
                try:
                    answer = await handle(request)
                    if answer.status_code < 400:
                        await keyed.answer(request.state.session, _stored(answer))
                        return answer
                except BaseException:
                    await _give_back(request, keyed)
                    raise
                await _give_back(request, keyed)
                return answer

        return handle_once


class FormRoute(KeyedRoute):
    """A keyed route of a page's form."""

    _key_place = ("body", KEY_FIELD)
    _key_missing = "the form came without its key; load its page anew and send it again"

    @staticmethod
    async def key_of(request: Request) -> str | None:
        """The key of a form, in its field or the header."""
        key = (await form_fields(request)).get(KEY_FIELD, "")
        return key if _KEY.fullmatch(key) else await KeyedRoute.key_of(request)


async def _give_back(request: Request, keyed: Keyed) -> None:
    """Undo what the request wrote, then give its key back; on SQLite its session would lock the other one out."""
    if (session := getattr(request.state, "session", None)) is not None:
        with contextlib.suppress(SQLAlchemyError):
            await session.rollback()
    await keyed.release(request.app.state.database)


def _stored(answer: Response) -> Answer:
    if answer.headers.get("cache-control") == "no-store":  # a secret, which the database never has
        return Answer(answer.status_code, None, None)
    if (location := answer.headers.get("location")) is not None:
        return Answer(answer.status_code, None, location)
    return Answer(answer.status_code, bytes(answer.body).decode(), None)


def _replay(known: Answer) -> Response:
    headers = {"Idempotent-Replay": "true"}
    if known.location is not None:
        return Response(status_code=known.status, headers={**headers, "Location": known.location})
    return Response(known.body, known.status, headers, media_type="application/json")


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
