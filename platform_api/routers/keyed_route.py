"""Routes whose POSTs take an idempotency key: sent again, they change nothing again and get the same answer.

A program sends the key as a header, a page's form as the field that `once()` draws into it. The route writes in the
request's session (`SessionOf`), in which its answer is stored too, so that one commit makes both.
"""

import contextlib
import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError

from rubricworks.platform_api.access import is_open
from rubricworks.platform_api.routers.dependencies import IdempotencyKey, get_session
from rubricworks.platform_api.routers.pages.forms import KEY_FIELD, form_fields
from rubricworks.platform_api.routers.tagged_route import TaggedRoute
from rubricworks.platform_api.services.access.idempotency import Answer, Keyed, request_digest

HEADER = "Idempotency-Key"
_KEY = re.compile(r"[!-~]{8,200}")


async def _describe_key(key: IdempotencyKey) -> None:
    """Name the header in the description of the API."""


class KeyedRoute(TaggedRoute):
    """A route that answers a repeated POST by what it answered before."""

    _key_place = ("header", HEADER)
    _key_missing = "a key of 8 to 200 visible ASCII characters is needed, a new one for each change"

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if "POST" in (options.get("methods") or ()):
            options["dependencies"] = [
                *([Depends(_describe_key)] if options.get("include_in_schema", True) else []),
                Depends(get_session, scope="function"),
                *(options.get("dependencies") or ()),
            ]
        super().__init__(path, endpoint, **options)

    @staticmethod
    async def key_of(request: Request) -> str | None:
        """The key of a request, if it has a valid one."""
        key = request.headers.get(HEADER, "")
        return key if _KEY.fullmatch(key) else None

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, behind the key."""
        handle = super().get_route_handler()

        async def handle_once(request: Request) -> Response:
            if request.method != "POST":
                return await handle(request)
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
